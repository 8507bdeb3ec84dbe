#include "rossby/model/architecture.hpp"

namespace rossby {

GlobalEdges make_supports(const Supports& wanted, const GlobalEdges& graph, const RowPartition& partition,
                          Mailbox& mailbox) {
  using Kind = Supports::Kind;
  switch (wanted.kind) {
    case Kind::none:
      break;
    case Kind::symmetric: {
      const GlobalEdges edges = wanted.undirected ? undirected(graph, partition, mailbox) : graph;
      return normalise_symmetrically(with_self_loops(edges, 1, partition, mailbox.part()), partition,
                                     mailbox);
    }
    case Kind::random_walk:
      return random_walks(graph, false, partition, mailbox);
    case Kind::dual_random_walk:
      return random_walks(graph, true, partition, mailbox);
    case Kind::laplacian:
      return scaled_laplacian(graph, partition, mailbox);
  }
  GlobalEdges none;
  none.rows = graph.rows;
  none.ptr = {0};
  return none;
}

}  // namespace rossby
