#pragma once

#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Throws UserError naming the setting if relations are set that models of latents support and window models
/// do not.
void check_window_relations(const Config& config);

/// Returns this rank's rows of the matrices that a diffusion sums over (model.supports); none for a model
/// without a graph. `any_weights`: negative weights are accepted. Throws UserError if the model needs a graph
/// that relation.graph does not give. Collective.
[[nodiscard]] GlobalEdges make_supports(const Communicator& comm, const Config& config, const Domain& domain,
                                        bool any_weights);

}  // namespace rossby
