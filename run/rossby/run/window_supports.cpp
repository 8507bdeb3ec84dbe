#include "rossby/run/window_supports.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "rossby/base/user_error.hpp"
#include "rossby/data/leading_patterns.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/run/window_run.hpp"

namespace rossby {

void check_window_relations(const Config& config) {
  const auto refuse = [&](bool asked, const char* setting) {
    if (asked)
      user_error(
          "{} works only with model.name = \"stnn\". Model {} uses the weights of relation.graph as they "
          "are. Remove this setting, or set model.name = \"stnn\"",
          setting, config.model.name);
  };
  refuse(config.relation.mode == "refine", "relation.mode = \"refine\"");
  if (config.relation.discover == "dense" && config.windows()->learns_low_rank())
    user_error(
        "relation.discover = \"dense\" works only with model.name = \"stnn\". Model {} learns relations of "
        "low rank. Set relation.discover = \"low_rank\"",
        config.model.name);
  refuse(config.relation.discover != "none" && !config.windows()->learns_low_rank(), "relation.discover");
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
        "model.name = \"{}\" needs a graph. Set relation.graph (or model.name = \"gru\", which needs none)",
        config.model.name);
  if (wanted.one_relation && graph.relations > 1)
    user_error(
        "model.name = \"{}\" uses one relation, but relation.graph = \"{}\" makes {}. Set relation.graph = "
        "\"grid\" or \"nearest\", or model.name = \"dcrnn\"",
        config.model.name, config.relation.graph, graph.relations);
  agree(comm, [&] {
    if (any_weights) return;
    const auto negative =
        std::find_if(graph.value.begin(), graph.value.end(), [](double w) { return w < 0; });
    if (negative != graph.value.end())
      user_error(
          "{}: an edge has weight {:.6g}, but model.name = \"{}\" needs weights of at least 0. Remove the "
          "negative weights, or name another file with relation.file",
          config.relation.file.empty() ? domain.info.path : config.relation.file, *negative,
          config.model.name);
  });
  MpiMailbox mailbox(comm);
  return make_supports(wanted, graph, domain.partition, mailbox);
}

/// Starts at U = 0 and V = n · leading EOFs / spread of their amplitudes, of the first feature as the model
/// reads it at training steps. Vᵀx / n then has amplitudes of variance 1: weak ones are learned as fast as
/// strong ones. Columns beyond the number of nodes or the rank of the data keep their random V.
template <class T>
void WindowRun<T>::start_low_rank_at_eofs() {
  const std::vector<Index> steps = training_steps();
  PatternFields fields;
  fields.rows = domain_.rows;
  fields.steps = steps;
  fields.read = [this](Index step, std::span<double> field) {
    const float* x = store_->at(step + training_view_);
    for (Index i = 0; i < store_->rows(); ++i) {
      const double value = scaler_.to_scaled(static_cast<double>(x[i * store_->features()]), i, 0);
      field[static_cast<std::size_t>(i)] = std::isnan(value) ? 0 : value;
    }
  };
  MpiReducer space(grid_.space()), groups(grid_.time());
  const Index rank = low_rank(), modes = std::min(rank, domain_.nodes());
  const LeadingPatterns found = leading_patterns(fields, modes, space, groups);
  const auto n = static_cast<double>(domain_.nodes());
  for (Parameter<T>* parameter : model_->parameters()) {
    if (parameter->name == "low_rank_u") std::fill(parameter->value.begin(), parameter->value.end(), T(0));
    if (parameter->name != "low_rank_v") continue;
    for (Index i = 0; i < store_->rows(); ++i)
      for (Index k = 0; k < modes; ++k)
        if (const double spread = found.spread[static_cast<std::size_t>(k)]; spread > 0)
          parameter->value[i * rank + k] =
              static_cast<T>(n * found.pattern[static_cast<std::size_t>(i * modes + k)] / spread);
  }
}

template void WindowRun<float>::start_low_rank_at_eofs();
template void WindowRun<double>::start_low_rank_at_eofs();

}  // namespace rossby
