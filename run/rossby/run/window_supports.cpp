#include "rossby/run/window_supports.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"

namespace rossby {

void check_window_relations(const Config& config) {
  const auto refuse = [&](bool asked, const char* setting) {
    if (asked)
      user_error("{} is for model.name = \"stnn\"; a {} takes the weights of relation.graph as they are",
                 setting, config.model.name);
  };
  refuse(config.relation.mode == "refine", "relation.mode = \"refine\"");
  refuse(config.relation.discover != "none", "relation.discover");
  refuse(config.relation.self, "relation.self = true");
  refuse(config.relation.hops != std::vector<Index>{1}, "relation.hops other than [1]");
  refuse(config.relation.storage == "dense", "relation.storage = \"dense\"");
  refuse(config.relation.precision == "bf16", "relation.precision = \"bf16\"");
  refuse(config.relation.memory == "streamed", "relation.memory = \"streamed\"");
}

GlobalEdges make_supports(const Communicator& comm, const Config& config, const Domain& domain,
                          bool any_weights) {
  using Kind = Supports::Kind;
  const Supports wanted = config.windows()->supports();
  GlobalEdges none;
  none.rows = static_cast<Index>(domain.rows.size());
  none.ptr = {0};
  if (wanted.kind == Kind::none) return none;
  const GlobalEdges graph = build_graph(comm, config, domain, domain.partition);
  if (graph.relations == 0 && wanted.optional) return none;
  if (graph.relations == 0)
    user_error(
        "model.name = \"{}\" needs a graph: set relation.graph (or model.name = \"gru\", which needs none)",
        config.model.name);
  if (wanted.one_relation && graph.relations > 1)
    user_error(
        "model.name = \"{}\" takes one relation; relation.graph = \"{}\" gives {}: use \"grid\" or "
        "\"nearest\", or model.name = \"dcrnn\"",
        config.model.name, config.relation.graph, graph.relations);
  agree(comm, [&] {
    if (any_weights) return;
    const auto negative =
        std::find_if(graph.value.begin(), graph.value.end(), [](double w) { return w < 0; });
    if (negative != graph.value.end())
      user_error("the graph has an edge of weight {:.6g}: a {} needs weights that are not negative",
                 *negative, config.model.name);
  });
  MpiMailbox mailbox(comm);
  if (wanted.kind == Kind::symmetric)
    return normalise_symmetrically(with_self_loops(graph, 1, domain.partition, comm.rank()), domain.partition,
                                   mailbox);
  return random_walks(graph, wanted.kind == Kind::dual_random_walk, domain.partition, mailbox);
}

}  // namespace rossby
