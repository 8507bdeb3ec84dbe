#pragma once

#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/step_graph.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// What the first training steps of a configuration compute on rank 0: a graph for each stage of layers that
/// holds its rows and times, on rank 0 alone (of other ranks unspecified). `measure`: computes the steps on
/// the host and times their blocks; else they are traced, and no series is read. Throws UserError.
/// Collective.
[[nodiscard]] std::vector<StepGraph> trace_step_graph(const Communicator& comm, const Config& config,
                                                      bool measure);

}  // namespace rossby
