#pragma once

#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/step_graph.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Returns what the first training steps of a configuration compute on rank 0: a graph for each stage that
/// holds its rows and times. The result of other ranks is unspecified. `measure`: computes the steps on the
/// host and times their blocks; otherwise traces them without reading a series. Throws UserError. Collective.
[[nodiscard]] std::vector<StepGraph> trace_step_graph(const Communicator& comm, const Config& config,
                                                      bool measure);

}  // namespace rossby
