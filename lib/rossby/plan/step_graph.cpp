#include "rossby/plan/step_graph.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "rossby/base/stopwatch.hpp"
#include "rossby/train/step.hpp"

namespace rossby {

namespace {

/// Runs one step of each kind and returns their total seconds.
template <class T>
double run_steps(Task<T>& task, Step<T>& step, Tape<T>& tape, Index& count) {
  Losses losses;
  double seconds = 0;
  for (const Index index : task.kinds()) {
    const Stopwatch begin;
    const auto record = [&](Index part) {
      if (part > 0) return task.record_part(tape, part);
      task.record(tape, index, count, losses);
    };
    (void)step.run(tape, 0.0, 0, losses, record, task.parts());
    seconds += begin.seconds();
    ++count;
  }
  return seconds;
}

/// Keeps the whole repeat with the median time, because medians of parts of different repeats do not add up.
void keep_median(StepGraph& graph, const std::vector<BlockTrace>& traces,
                 const std::vector<double>& seconds) {
  std::vector<std::size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  const std::size_t chosen = order[order.size() / 2];
  const auto keep = [](TracedBlock& to, const TracedBlock& from) {
    to.forward_seconds = from.forward_seconds;
    to.backward_seconds = from.backward_seconds;
  };
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) keep(graph.blocks[b], traces[chosen].blocks()[b]);
  keep(graph.rest, traces[chosen].rest());
  graph.step_seconds = seconds[chosen];
}

}  // namespace

template <class T>
StepGraph trace_steps(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip, const Exec& exec,
                      TimeGroups groups, int repeats) {
  StepGraph graph;
  BlockTrace trace;
  Tape<T> tape(exec);
  Step<T> step(task.parameters(), optimiser, reducer, clip, groups);
  task.start_epoch(0);
  tape.set_trace(&trace);
  (void)run_steps(task, step, tape, graph.steps);
  std::vector<BlockTrace> traces(static_cast<std::size_t>(repeats), BlockTrace(BlockTrace::Of::times));
  std::vector<double> seconds;
  const auto totals = tape.totals();
  for (BlockTrace& timed : traces) {
    tape.set_trace(&timed);
    Index count = graph.steps;
    seconds.push_back(run_steps(task, step, tape, count));
  }
  reducer.max(seconds);
  graph.blocks = trace.blocks();
  graph.edges = trace.edges();
  graph.handed_over = trace.handed_over();
  graph.rest = trace.rest();
  if (repeats > 0) keep_median(graph, traces, seconds);
  for (const auto& total : totals) graph.ops.push_back({std::string(total.op), total.calls, total.cost});
  for (const TracedBlock& block : graph.blocks) {
    graph.forward += block.forward;
    graph.backward += block.backward;
  }
  graph.forward += graph.rest.forward;
  graph.backward += graph.rest.backward;
  for (const Parameter<T>* parameter : task.parameters()) {
    if (!parameter->trained) continue;
    graph.parameters += static_cast<double>(parameter->size());
    graph.parameter_bytes +=
        static_cast<double>(parameter->size()) * (parameter->in_bf16 ? sizeof(Bf16) : sizeof(T));
  }
  graph.activation_bytes = static_cast<double>(tape.memory().peak_bytes());
  if (exec.device)
    graph.device_bytes = static_cast<double>(exec.device->used_bytes() - tape.memory().taken_bytes() +
                                             tape.memory().peak_bytes());
  return graph;
}

template StepGraph trace_steps(Task<float>&, Optimiser<float>&, Reducer&, double, const Exec&, TimeGroups,
                               int);
template StepGraph trace_steps(Task<double>&, Optimiser<double>&, Reducer&, double, const Exec&, TimeGroups,
                               int);

}  // namespace rossby
