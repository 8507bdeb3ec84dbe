#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "rossby/io/attribute_text.hpp"
#include "rossby/io/float_loss.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace rossby::fuzz {

inline void use_edges(const SeriesFile& file) {
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

/// Reads all that a run reads of a series, and checks the guarantees that a run relies on.
inline void use(const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  check(info.steps > 0 && info.file_nodes > 0 && info.features > 0, "a series has values");
  check(info.time.size() == info.steps, "a series has a time for each step");
  check(info.node_lat.size() == info.node_lon.size(), "nodes have both coordinates or none");
  check(info.node_lat.empty() || static_cast<Index>(info.node_lat.size()) == info.file_nodes,
        "every node has coordinates");
  check(!info.gridded || info.n_lat * info.n_lon == info.file_nodes, "nodes are cells of the grid");
  (void)info.time.step_text();
  (void)info.time.text(info.steps - 1);
  const Index last = info.file_nodes - 1, steps = std::min<Index>(info.steps, 50);
  std::vector<Index> nodes;
  for (const Index node : {Index{0}, last / 3, last / 2, last})
    if (nodes.empty() || node > nodes.back()) nodes.push_back(node);
  if (info.features <= 10'000) {
    const auto width = static_cast<Index>(nodes.size()) * info.features;
    std::vector<float> values(static_cast<std::size_t>(steps * width));
    survives([&] {
      file.read_steps(nodes, info.steps - steps, steps, values.data());
      for (const float value : values) check(!std::isinf(value), "a value is finite or missing");
    });
  }
  survives([&] { (void)file.observed(last / 2, std::min<Index>(last - last / 2 + 1, 1000)); });
  survives([&] { use_edges(file); });
  for (const std::string& remark : info.remarks)
    check(utf8_text(remark) == remark, "what is said of a file is UTF-8");
  for (const SeriesVariable& variable : info.variables)
    check(utf8_text(variable.units) == variable.units, "units are UTF-8");
  if (info.features <= 100)
    survives([&] {
      FloatLoss loss = float_loss(file, nodes, 0, info.steps);
      complete_first(file, nodes, loss.first);
    });
}

}  // namespace rossby::fuzz
