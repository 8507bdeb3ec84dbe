// A NetCDF file made by statements (netcdf_maker.hpp) → Series, time axis, edges. Further statements:
//
//     use NAME...          opens these variables together
//     steps FIRST LAST
//     earlier INSTANT...   prepends steps of missing values
//     cut BYTES            removes the last BYTES bytes (classic formats; HDF5's own reader is not tested)
//     poke AT BYTE         changes a byte (classic formats)
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rossby/io/graph_match.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/series_file.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/netcdf_maker.hpp"
#include "tests/fuzz/use_series.hpp"

using namespace rossby;

namespace {

/// Matches a graph with a series of the same file.
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
  std::vector<double> earlier;
  bool classic = false;
  for (const auto& s : statements) {
    if (s.words[0] == "use") wanted.assign(s.words.begin() + 1, s.words.end());
    if (s.words[0] == "steps") first = s.integer(1), last = s.integer(2);
    for (std::size_t k = 1; s.words[0] == "earlier" && k < s.words.size(); ++k) earlier.push_back(s.real(k));
    if (s.words[0] == "kind") classic = s.word(1) != "4";
  }
  if (classic) damage(made.path(), statements);
  std::vector<std::string> names;
  fuzz::survives([&] { names = SeriesFile::candidates(made.path()); });
  if (names.size() > 4) names.resize(4);
  for (const std::string& name : names) {
    fuzz::survives([&] { fuzz::use(SeriesFile::open(made.path(), std::vector{name})); });
    fuzz::survives([&] { match(made.path(), SeriesFile::open(made.path(), std::vector{name})); });
  }
  fuzz::survives([&] { fuzz::use(SeriesFile::open(made.path(), wanted, first, last)); });
  fuzz::survives([&] {
    const SeriesFile filled = SeriesFile::open(made.path(), wanted, first, last, {}, true);
    fuzz::check(filled.info().time.gaps().empty(), "a filled time axis has no gaps");
    if (filled.info().steps < 100'000) fuzz::use(filled);
  });
  fuzz::survives([&] {
    SeriesFile later = SeriesFile::open(made.path(), wanted, first, last);
    const Index steps = later.info().steps;
    later.begin_with(earlier);
    fuzz::check(later.info().steps == steps + std::ssize(earlier), "each earlier step is one");
    fuzz::use(later);
  });
  fuzz::survives([&] { (void)inspect_series(made.path(), wanted); });
  return 0;
}
