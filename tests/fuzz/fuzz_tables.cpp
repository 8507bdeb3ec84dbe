// Comma-separated tables of edges, distances and weights → graphs for sensors. The first line is one of the
// first three statements:
//
//     edges NODES [value] [skip]     or     matrix NODES     or     nodes NODES COLUMN
//     line 0,1,0.5                        a line of the table
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rossby/io/node_values.hpp"
#include "rossby/relation/sensor_graph.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/statements.hpp"

using namespace rossby;

namespace {

std::vector<Edge> checked(const std::vector<FileEdge>& edges, Index nodes) {
  std::vector<Edge> checked;
  for (const FileEdge& e : edges) {
    fuzz::check(e.source >= 0 && e.source < nodes && e.destination >= 0 && e.destination < nodes,
                "an edge joins nodes");
    fuzz::check(std::isfinite(e.weight), "a weight is finite");
    checked.push_back({e.source, e.destination, 0, e.weight});
  }
  return checked;
}

void use(std::vector<Edge> edges) {
  const std::vector<Edge> both = both_directions(edges);
  fuzz::check(both.size() <= 2 * edges.size(), "no more than both directions");
  fuzz::survives([&] {
    const GaussianGraph graph = gaussian_graph(std::move(edges), {});
    fuzz::check(std::isfinite(graph.sigma), "a spread is finite");
    for (const Edge& e : graph.edges) fuzz::check(e.weight > 0 && e.weight <= 1, "a kernel is a share");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto end = std::min(text.find('\n'), text.size());
  const fuzz::Statement head = fuzz::read_statement(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  const Index nodes = std::clamp<Index>(head.integer(1), 0, 200);
  if (head.word(0) == "matrix") {
    fuzz::survives([&] { use(checked(parse_edge_matrix(text, "matrix.csv", nodes), nodes)); });
    return 0;
  }
  if (head.word(0) == "nodes") {
    fuzz::survives([&] {
      const auto values = parse_node_table(text, "nodes.csv", std::string(head.word(2)),
                                           [&](const std::string&) { return NodeNames(nodes); });
      fuzz::check(std::ssize(values) == nodes, "a value or none for every node");
    });
    return 0;
  }
  const auto has = [&](const char* word) { return head.word(2) == word || head.word(3) == word; };
  fuzz::survives([&] {
    const EdgeTable table =
        parse_edge_table(text, "edges.csv", NodeNames(nodes), {has("value"), has("skip")});
    fuzz::check(table.lines.size() == table.edges.size(), "every edge has a line");
    fuzz::check(has("skip") || table.skipped == 0, "nothing is left out unasked");
    use(checked(table.edges, nodes));
  });
  return 0;
}
