#pragma once

#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Refuses, with a UserError that names the setting, what a model of latents does with relations and
/// forecasters of windows do not.
void check_window_relations(const Config& config);

/// The matrices that a diffusion sums over (model.supports), this rank's rows of them; none for a model
/// without a graph. `any_weights`: negative ones are not refused. Throws UserError where the model needs a
/// graph that relation.graph does not give. Collective.
[[nodiscard]] GlobalEdges make_supports(const Communicator& comm, const Config& config, const Domain& domain,
                                        bool any_weights);

}  // namespace rossby
