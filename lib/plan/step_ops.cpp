#include "rossby/plan/step_ops.hpp"

#include <algorithm>
#include <chrono>

#include "rossby/plan/walk.hpp"

namespace rossby {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class T>
bool has_tables(Task<T>& task) {
  const auto parameters = task.parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter<T>* parameter) { return parameter->trained && parameter->by_rows; });
}

/// Which cache holds what an op left for the next depends on all that is touched in between.
template <class T>
double footprint(Task<T>& task, Tape<T>& tape) {
  double bytes = static_cast<double>(tape.memory().peak_bytes());
  for (const Parameter<T>* parameter : task.parameters())
    bytes += 3.0 * static_cast<double>(parameter->size()) *
             static_cast<double>(parameter->in_bf16 ? sizeof(Bf16) : sizeof(T));
  return bytes;
}

double quantile(std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace

template <class T>
StepOps trace_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip, const Exec& exec,
                  TimeGroups groups, const OpTraceOptions& options) {
  StepOps result;
  Tape<T> tape(exec);
  Step<T> step(task.parameters(), optimiser, reducer, clip, groups);
  Walk<T> walk(task, step, tape, optimiser);
  const Index batches = task.batches();
  result.epoch_steps = batches;
  const auto sent = [&] { return options.sent ? options.sent() : Traffic{}; };
  if (has_tables(task)) {
    const Index count = std::min(batches, options.most_steps);
    for (Index i = 0; i < batches && i < 2 * options.most_steps; ++i) walk.next();
    BlockTrace trace;
    tape.set_trace(&trace);
    const Traffic before = sent();
    for (Index i = 0; i < count; ++i) walk.next();
    result.sent = sent();
    result.sent -= before;
    result.ops = trace.ops();
    result.steps = count;
  } else {
    const std::vector<Index> runs = task.runs();
    Index longest = 0;
    for (const Index batch : runs) walk.run(batch);  // what a first step alone does
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const Index end = k + 1 < runs.size() ? runs[k + 1] : batches;
      BlockTrace trace;
      tape.set_trace(&trace);
      const Traffic before = sent();
      walk.run(runs[k]);
      Traffic more = sent();
      more -= before;
      result.sent += {more.messages * (end - runs[k]), more.bytes * (end - runs[k])};
      if (end - runs[k] > longest) {
        longest = end - runs[k];
        result.in_order = {trace.ops(), trace.legs()};
      }
      for (TracedOp op : trace.ops()) {
        op.calls *= end - runs[k];
        add(result.ops, op);
      }
      tape.set_trace(nullptr);
    }
    result.steps = batches;
  }
  result.activation_bytes = static_cast<double>(tape.memory().peak_bytes());
  result.footprint = footprint(task, tape);
  if (exec.device)
    result.settled_bytes =
        static_cast<double>(exec.device->resident_on_host() + tape.arena().resident_whole());
  if (exec.device)
    result.array_bytes =
        static_cast<double>(exec.device->resident_on_host() - tape.memory().resident_whole() +
                            tape.memory().resident_peak() + tape.arena().resident_peak());
  return result;
}

template <class T>
TimedOps time_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, const Exec& exec, double seconds,
                  const GoOn& go_on) {
  constexpr double repeat_seconds = 0.02;
  constexpr std::size_t fewest_repeats = 3;
  TimedOps result;
  StepOps& steps = result.steps;
  Tape<T> tape(exec);
  Step<T> step(task.parameters(), optimiser, reducer, 0, {});
  Walk<T> walk(task, step, tape, optimiser);
  steps.epoch_steps = task.batches();
  const auto begin = Clock::now();
  // As many on all ranks: calls are known by the order in which they are met.
  for (Index i = 0; go_on(i < steps.epoch_steps + 1 && (i < 2 || seconds_since(begin) < seconds / 2)); ++i)
    walk.next();
  std::vector<std::vector<double>> samples;  // of each op: seconds a call, by repeat
  const auto measured = Clock::now();
  // One for all repeats: memory that it takes anew would be charged to the op at hand, in each repeat the
  // same one.
  BlockTrace trace(BlockTrace::Of::times_of_ops);
  for (std::size_t r = 0; go_on(r < fewest_repeats || seconds_since(measured) < seconds); ++r) {
    trace.forget_ops();
    tape.set_trace(&trace);
    const auto repeat = Clock::now();
    do {
      const auto one = Clock::now();
      walk.next();
      steps.step_seconds.push_back(seconds_since(one));
      ++steps.steps;
    } while (go_on(seconds_since(repeat) < repeat_seconds));
    for (const TracedOp& op : trace.ops()) {
      const auto place = static_cast<std::size_t>(&add(steps.ops, op) - steps.ops.data());
      samples.resize(steps.ops.size());
      samples[place].push_back(op.seconds / static_cast<double>(op.calls));
    }
    tape.set_trace(nullptr);
  }
  for (std::size_t o = 0; o < samples.size(); ++o) {
    std::sort(samples[o].begin(), samples[o].end());
    const double median = quantile(samples[o], 0.5);
    steps.ops[o].seconds = median * static_cast<double>(steps.ops[o].calls);
    result.spread.push_back(
        median > 0 ? (quantile(samples[o], 0.75) - quantile(samples[o], 0.25)) / 2 / median : 0);
  }
  steps.activation_bytes = static_cast<double>(tape.memory().peak_bytes());
  steps.footprint = footprint(task, tape);
  return result;
}

template StepOps trace_ops(Task<float>&, Optimiser<float>&, Reducer&, double, const Exec&, TimeGroups,
                           const OpTraceOptions&);
template StepOps trace_ops(Task<double>&, Optimiser<double>&, Reducer&, double, const Exec&, TimeGroups,
                           const OpTraceOptions&);
template TimedOps time_ops(Task<float>&, Optimiser<float>&, Reducer&, const Exec&, double, const GoOn&);
template TimedOps time_ops(Task<double>&, Optimiser<double>&, Reducer&, const Exec&, double, const GoOn&);

}  // namespace rossby
