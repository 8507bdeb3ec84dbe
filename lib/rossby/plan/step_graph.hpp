#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// The computation of training steps on one rank, by blocks of the model and by ops: one step of each kind in
/// an epoch (Task::kinds), with all parts of a batch. Costs are those that ops report (autograd/costs.hpp),
/// without the optimiser and the step's one reduction.
struct StepGraph {
  std::string model;
  int rank = 0, ranks = 1;
  int stage = 0, stages = 1;  // of a pipeline
  Index steps = 0;            // traced steps: one of each kind
  std::vector<TracedBlock> blocks;
  std::vector<TracedEdge> edges;
  std::vector<TracedHandOver> handed_over;  // to other stages
  TracedBlock rest;                         // ops outside blocks
  struct Op {
    std::string name;
    Index calls = 0;
    Cost cost;  // forward and backward
  };
  std::vector<Op> ops;
  Cost forward, backward;       // of all blocks and the rest
  double parameters = 0;        // trained values of this rank
  double parameter_bytes = 0;   // of the trained values
  double activation_bytes = 0;  // peak of values, gradients and scratch in a step
  double step_seconds = 0;      // of all steps, with optimiser and reduction; 0: not measured
  double device_bytes = 0;      // peak on a device, with moments and series; 0: no device traced
};

/// Runs one step of each kind over `exec` and records it. The optimiser is the training's, because it
/// determines which relations are updated in backward. On an idle device (SimulatedDriver::idle) nothing is
/// computed and values have no meaning. `repeats`: number of timed repeats after the first run. The repeat
/// with the median time, on the slowest rank, is kept. The learning rate is 0, so that parameters do not
/// change. Collective.
template <class T>
[[nodiscard]] StepGraph trace_steps(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                    const Exec& exec, TimeGroups groups, int repeats = 0);

// The next three take one rank, or the stages of a pipeline with the same rows and times, in order.

/// Returns a table of blocks and a table of ops.
[[nodiscard]] std::string text_of(const std::vector<StepGraph>& stages);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<StepGraph>& stages);
/// Returns a Graphviz graph: a node per block, an edge for each value that a block hands to another, and a
/// frame per stage. Edges between stages are values (and gradients, which flow back: dashed).
[[nodiscard]] std::string dot_of(const std::vector<StepGraph>& stages);
/// Reads the first graph that json_of() wrote.
[[nodiscard]] StepGraph step_graph_of(const nlohmann::ordered_json& json);

}  // namespace rossby
