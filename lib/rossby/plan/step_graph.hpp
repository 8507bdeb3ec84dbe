#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// What the steps of a training compute on one rank, by blocks of the model and by ops: one step of each kind
/// that an epoch has (Task::kinds), whole where batches come in parts. The costs are those that ops state of
/// themselves (autograd/costs.hpp), with the optimiser's and the step's one reduction left out.
struct StepGraph {
  std::string model;
  int rank = 0, ranks = 1;
  int stage = 0, stages = 1;  // of a pipeline
  Index steps = 0;            // traced: one of each kind
  std::vector<TracedBlock> blocks;
  std::vector<TracedEdge> edges;
  std::vector<TracedHandOver> handed_over;  // to other stages
  TracedBlock rest;                         // what belongs to no block
  struct Op {
    std::string name;
    Index calls = 0;
    Cost cost;  // forward and backward
  };
  std::vector<Op> ops;
  Cost forward, backward;       // of all blocks and the rest
  double parameters = 0;        // trained values of this rank
  double parameter_bytes = 0;   // of those
  double activation_bytes = 0;  // most values, gradients and scratch of a step at once
  double step_seconds = 0;  // of the steps together, with the optimiser and the reduction; 0: not measured
  double device_bytes = 0;  // most that a device holds, moments and series included; 0: not traced on one
};

/// Runs one step of each kind over `exec` and writes down what it did. The optimiser is that of the training:
/// it says which relations are updated in backward. On an idle device (SimulatedDriver::idle) nothing is
/// computed and values mean nothing. `repeats`: so often beside the first time they are run and timed, and
/// the repeat is kept whose steps took the median time, the slowest rank's. The learning rate is 0:
/// parameters stay what they are. Collective.
template <class T>
[[nodiscard]] StepGraph trace_steps(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                    const Exec& exec, TimeGroups groups, int repeats = 0);

// The three below: of a rank, or of the stages of a pipeline that have the same rows and times, in order.

/// A table of blocks and one of ops.
[[nodiscard]] std::string text_of(const std::vector<StepGraph>& stages);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<StepGraph>& stages);
/// For Graphviz: a node a block, an edge where one hands values to another, a frame a stage, between which
/// edges are values (and gradients, which come back: dashed).
[[nodiscard]] std::string dot_of(const std::vector<StepGraph>& stages);
/// The first of what json_of() wrote.
[[nodiscard]] StepGraph step_graph_of(const nlohmann::ordered_json& json);

}  // namespace rossby
