// A NetCDF file made by statements (netcdf_maker.hpp) → Series, time axis, edges. Further statements:
//
//     use NAME...      variables that are opened together, beside each that fits
//     steps FIRST LAST
//     cut BYTES        the end of the file that is missing (classic formats; HDF5's own reader is not ours)
//     poke AT BYTE     a byte of it that is another (the same)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "rossby/io/attribute_text.hpp"
#include "rossby/io/float_loss.hpp"
#include "rossby/io/graph_match.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/netcdf_maker.hpp"

using namespace rossby;

namespace {

void use_edges(const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  if (!info.has_edges) return;
  std::vector<Edge> edges;
  for (const FileEdge& edge : file.edges(0, info.edges))
    edges.push_back({edge.source, edge.destination, 0, edge.weight});
  if (info.file_nodes > 100'000) return;
  OneMailbox mailbox;
  const RowPartition partition = RowPartition::blocks(info.file_nodes, 1);
  GlobalEdges relations = from_edge_list(edges, 1, partition, mailbox);
  normalise_rows(relations);
}

void use(const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  fuzz::check(info.steps > 0 && info.file_nodes > 0 && info.features > 0, "a series has values");
  fuzz::check(info.time.size() == info.steps, "a series has a time for each step");
  fuzz::check(info.node_lat.size() == info.node_lon.size(), "nodes have both coordinates or none");
  fuzz::check(info.node_lat.empty() || static_cast<Index>(info.node_lat.size()) == info.file_nodes,
              "every node has coordinates");
  fuzz::check(!info.gridded || info.n_lat * info.n_lon == info.file_nodes, "nodes are cells of the grid");
  (void)info.time.step_text();
  (void)info.time.text(info.steps - 1);
  const Index last = info.file_nodes - 1, steps = std::min<Index>(info.steps, 50);
  std::vector<Index> nodes;
  for (const Index node : {Index{0}, last / 3, last / 2, last})
    if (nodes.empty() || node > nodes.back()) nodes.push_back(node);
  if (info.features <= 10'000) {
    const auto width = static_cast<Index>(nodes.size()) * info.features;
    std::vector<float> values(static_cast<std::size_t>(steps * width));
    fuzz::survives([&] {
      file.read_steps(nodes, info.steps - steps, steps, values.data());
      for (const float value : values) fuzz::check(!std::isinf(value), "a value is finite or missing");
    });
  }
  fuzz::survives([&] { (void)file.observed(last / 2, std::min<Index>(last - last / 2 + 1, 1000)); });
  fuzz::survives([&] { use_edges(file); });
  for (const std::string& remark : info.remarks)
    fuzz::check(utf8_text(remark) == remark, "what is said of a file is UTF-8");
  for (const SeriesVariable& variable : info.variables)
    fuzz::check(utf8_text(variable.units) == variable.units, "units are UTF-8");
  if (info.features <= 100)
    fuzz::survives([&] {
      FloatLoss loss = float_loss(file, nodes, 0, info.steps);
      complete_first(file, nodes, loss.first);
    });
}

/// A graph that is matched with a series of the same file.
void match(const std::string& path, const SeriesFile& file) {
  const GraphFile graph = GraphFile::open(path);
  std::string remark;
  if (graph.nodes() == file.info().file_nodes) (void)match_nodes(graph, path, file.info(), remark);
}

void damage(const std::string& path, const std::vector<fuzz::Statement>& statements) {
  for (const auto& s : statements) {
    std::error_code code;
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, code));
    if (s.words[0] == "cut")
      std::filesystem::resize_file(
          path, static_cast<std::uintmax_t>(std::clamp<std::int64_t>(bytes - s.integer(1), 0, bytes)), code);
    if (s.words[0] == "poke" && s.integer(1) >= 0 && s.integer(1) < bytes)
      if (std::FILE* out = std::fopen(path.c_str(), "r+b")) {
        std::fseek(out, s.integer(1), SEEK_SET);
        std::fputc(static_cast<int>(s.integer(2)) & 0xff, out);
        std::fclose(out);
      }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto statements = fuzz::read_statements({reinterpret_cast<const char*>(data), size});
  const fuzz::MemoryFile made;
  fuzz::make_netcdf(made.path(), statements);
  Index first = 0, last = -1;
  std::vector<std::string> wanted;
  bool classic = false;
  for (const auto& s : statements) {
    if (s.words[0] == "use") wanted.assign(s.words.begin() + 1, s.words.end());
    if (s.words[0] == "steps") first = s.integer(1), last = s.integer(2);
    if (s.words[0] == "kind") classic = s.word(1) != "4";
  }
  if (classic) damage(made.path(), statements);
  std::vector<std::string> names;
  fuzz::survives([&] { names = SeriesFile::candidates(made.path()); });
  if (names.size() > 4) names.resize(4);
  for (const std::string& name : names) {
    fuzz::survives([&] { use(SeriesFile::open(made.path(), std::vector{name})); });
    fuzz::survives([&] { match(made.path(), SeriesFile::open(made.path(), std::vector{name})); });
  }
  fuzz::survives([&] { use(SeriesFile::open(made.path(), wanted, first, last)); });
  fuzz::survives([&] {
    const SeriesFile filled = SeriesFile::open(made.path(), wanted, first, last, {}, true);
    fuzz::check(filled.info().time.gaps().empty(), "a filled time axis has no gaps");
    if (filled.info().steps < 100'000) use(filled);
  });
  fuzz::survives([&] { (void)inspect_series(made.path(), wanted); });
  return 0;
}
