// Edges and coordinates → relations.
//
//     nodes N          relations R          e SOURCE DESTINATION RELATION WEIGHT
//     loops WEIGHT     normalise            hops 1 2 4
//     at LAT LON       (of the next node)   nearest K
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rossby/relation/builders.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/statements.hpp"

using namespace rossby;

namespace {

void check_edges(const GlobalEdges& edges, Index nodes) {
  fuzz::check(edges.ptr.size() == static_cast<std::size_t>(edges.rows * edges.relations) + 1 &&
                  edges.ptr.front() == 0 && edges.ptr.back() == edges.entries() &&
                  std::is_sorted(edges.ptr.begin(), edges.ptr.end()) &&
                  edges.value.size() == edges.column.size(),
              "relations are whole");
  for (std::size_t e = 0; e < edges.column.size(); ++e) {
    fuzz::check(edges.column[e].value >= 0 && edges.column[e].value < nodes, "a column is a node");
    fuzz::check(std::isfinite(edges.value[e]), "a weight is finite");
  }
  for (std::size_t list = 0; list + 1 < edges.ptr.size(); ++list)
    for (Index e = edges.ptr[list] + 1; e < edges.ptr[list + 1]; ++e)
      fuzz::check(edges.column[static_cast<std::size_t>(e - 1)] < edges.column[static_cast<std::size_t>(e)],
                  "columns of a row ascend");
}

struct Input {
  Index nodes = 0;
  int relations = 1;
  std::vector<Edge> edges;
  std::vector<double> latitude, longitude;
  std::vector<fuzz::Statement> steps;
};

Input read_input(std::string_view text) {
  Input input;
  for (auto& s : fuzz::read_statements(text)) {
    const std::string& kind = s.words[0];
    if (kind == "nodes")
      input.nodes = std::clamp<Index>(s.integer(1), 0, 500);
    else if (kind == "relations")
      input.relations = static_cast<int>(std::clamp<Index>(s.integer(1), 0, 5));
    else if (kind == "e")
      input.edges.push_back({s.integer(1), s.integer(2), static_cast<int>(s.integer(3)), s.real(4)});
    else if (kind == "at")
      input.latitude.push_back(s.real(1)), input.longitude.push_back(s.real(2));
    else
      input.steps.push_back(std::move(s));
  }
  if (input.steps.size() > 8) input.steps.resize(8);
  return input;
}

GlobalEdges apply(const fuzz::Statement& step, GlobalEdges edges, const RowPartition& partition) {
  OneMailbox mailbox;
  if (step.words[0] == "loops") return with_self_loops(edges, step.real(1), partition, 0);
  if (step.words[0] == "normalise") normalise_rows(edges);
  if (step.words[0] == "hops") {
    std::vector<int> hops;
    for (std::size_t i = 1; i < step.words.size(); ++i)
      hops.push_back(static_cast<int>(std::min<Index>(step.integer(i), 6)));
    return powers(edges, hops, partition, mailbox);
  }
  return edges;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Input input = read_input({reinterpret_cast<const char*>(data), size});
  const RowPartition partition = RowPartition::blocks(input.nodes, 1);
  fuzz::survives([&] {
    OneMailbox mailbox;
    GlobalEdges edges = from_edge_list(input.edges, input.relations, partition, mailbox);
    check_edges(edges, input.nodes);
    for (const auto& step : input.steps) {
      if (edges.entries() > 20'000 || edges.relations > 40) break;
      edges = apply(step, std::move(edges), partition);
      check_edges(edges, input.nodes);
    }
  });
  const auto placed = static_cast<Index>(input.latitude.size());
  for (const auto& step : input.steps)
    if (step.words[0] == "nearest")
      fuzz::survives([&] {
        const int k = static_cast<int>(std::clamp<Index>(step.integer(1), 0, 1000));
        check_edges(
            nearest_neighbours(input.latitude, input.longitude, k, RowPartition::blocks(placed, 1), 0),
            placed);
      });
  return 0;
}
