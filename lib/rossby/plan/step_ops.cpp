#include "rossby/plan/step_ops.hpp"

#include <algorithm>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/base/stopwatch.hpp"
#include "rossby/kernels/queue_clock.hpp"
#include "rossby/plan/walk.hpp"

namespace rossby {
namespace {

template <class T>
bool has_tables(Task<T>& task) {
  const auto parameters = task.parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Parameter<T>* parameter) { return parameter->trained && parameter->by_rows; });
}

template <class T>
double bytes_of(const Parameter<T>& parameter) {
  return static_cast<double>(parameter.size()) *
         static_cast<double>(parameter.in_bf16 ? sizeof(Bf16) : sizeof(T));
}

/// Bytes in steps: values, gradients and moments.
template <class T>
double footprint(Task<T>& task, Tape<T>& tape) {
  auto bytes = static_cast<double>(tape.memory().peak_bytes());
  for (const Parameter<T>* parameter : task.parameters()) bytes += 3.0 * bytes_of(*parameter);
  return bytes;
}

/// Bytes in a validation, since Arena::begin_later_peak: values only, and almost none of a table.
template <class T>
double validation_footprint(Task<T>& task, Tape<T>& tape) {
  auto bytes = static_cast<double>(tape.memory().later_peak_bytes());
  for (const Parameter<T>* parameter : task.parameters())
    if (!parameter->by_rows) bytes += bytes_of(*parameter);
  return bytes;
}

void set_footprint(std::vector<TracedOp>& ops, double bytes) {
  for (TracedOp& op : ops) op.footprint = bytes;
}

/// Resident host memory of arrays outside the tape.
template <class T>
double beside_tape(Tape<T>& tape, Device* device) {
  return device ? static_cast<double>(device->resident_on_host() - tape.memory().resident_whole()) : 0;
}

/// Traces one call of each kind, counted as often as a validation makes it. Returns its resident host memory
/// outside the tape.
template <class T>
double trace_validation(Task<T>& task, Optimiser<T>& optimiser, Tape<T>& tape, StepOps& result) {
  double most = 0;
  tape.reset();
  // The first sweep writes the chunks of the last step back once, and finds what that step left.
  const auto parameters = task.parameters();
  if (std::any_of(parameters.begin(), parameters.end(),
                  [](const Parameter<T>* p) { return p->stream != nullptr; }))
    task.trace_validation(tape, [](Index) {});
  tape.reset();
  tape.memory().begin_later_peak();
  BlockTrace trace(BlockTrace::Of::times_of_ops);  // ops only
  tape.set_trace(&trace);
  const auto count = [&](Index times) {
    for (TracedOp op : trace.ops()) {
      op.calls *= times;
      op.seconds = 0;
      add(result.validation, op);
    }
    trace.forget_ops();
  };
  if (const Cost late = optimiser.settle(tape.exec()); late.bytes > 0) trace.note("catch_up", late);
  count(1);
  const std::size_t caught_up = result.validation.size();  // timed among steps
  bool any = false;
  Index before = trace.waits();
  task.trace_validation(tape, [&](Index times) {
    most = std::max(most, beside_tape(tape, tape.exec().device));
    any = true;
    count(times);
    result.validation_waits += static_cast<double>(times * (trace.waits() - before));
    before = trace.waits();
  });
  tape.set_trace(nullptr);
  if (!any) result.validation.clear();  // too short for a forecast
  const double inside = validation_footprint(task, tape);
  for (std::size_t o = 0; o < result.validation.size(); ++o)
    result.validation[o].footprint = o < caught_up ? result.footprint : inside;
  return std::max(most - beside_tape(tape, tape.exec().device), 0.0);
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
  step.allow_ahead();  // as the training does
  Walk<T> walk(task, step, tape, optimiser);
  const Index batches = task.batches();
  result.epoch_steps = batches;
  double waits = 0;
  const auto sent = [&] { return options.sent ? options.sent() : Traffic{}; };
  /// Counts the calls of `run` as often as an epoch makes them.
  const auto count = [&](Index times, const auto& run) {
    BlockTrace trace;
    tape.set_trace(&trace);
    const Traffic before = sent();
    run();
    Traffic more = sent();
    more -= before;
    result.sent += {more.messages * times, more.bytes * times};
    waits += static_cast<double>(trace.waits() * times);
    for (TracedOp op : trace.ops()) {
      op.calls *= times;
      add(result.ops, op);
    }
    tape.set_trace(nullptr);
    return TracedStep{trace.ops(), trace.legs()};
  };
  if (has_tables(task)) {
    result.steps = std::min(batches, options.most_steps);
    for (Index i = 0; i < batches && i < 2 * options.most_steps; ++i) walk.next();
    (void)count(1, [&] {
      for (Index i = 0; i < result.steps; ++i) walk.next();
    });
  } else {
    const std::vector<Index> runs = task.runs();
    Index longest = 0;
    for (const Index batch : runs) walk.run(batch);  // work of a first step only
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const Index length = (k + 1 < runs.size() ? runs[k + 1] : batches) - runs[k];
      TracedStep one = count(length, [&] { walk.run(runs[k]); });
      if (length > longest) result.in_order = std::move(one);
      longest = std::max(longest, length);
    }
    result.steps = batches;
  }
  result.device_waits = waits / static_cast<double>(std::max<Index>(result.steps, 1));
  result.activation_bytes = static_cast<double>(tape.memory().peak_bytes());
  result.footprint = footprint(task, tape);
  set_footprint(result.ops, result.footprint);
  set_footprint(result.in_order.ops, result.footprint);
  const auto stepping = static_cast<double>(tape.memory().resident_peak());
  const double validating = options.validates ? trace_validation(task, optimiser, tape, result) : 0;
  tape.reset();
  if (exec.device) result.device_bytes = static_cast<double>(exec.device->peak_bytes());
  if (exec.device) {
    const bool host = exec.device->driver().stands_for_host();  // there the tape's memory includes its lists
    const Arena& lists = tape.arena();
    result.settled_bytes = validating + static_cast<double>(exec.device->resident_on_host() +
                                                            (host ? 0 : lists.resident_whole()));
    // The tape grows in a step or a validation, beside the arrays.
    const auto peak = static_cast<double>(tape.memory().resident_peak());
    const double growing = peak > stepping ? validating + peak : peak;
    result.array_bytes =
        static_cast<double>(exec.device->resident_on_host() - tape.memory().resident_whole() +
                            (host ? 0 : lists.resident_peak())) +
        growing;
  }
  return result;
}

namespace {

/// Returns the median, and half the interquartile range over the median.
std::pair<double, double> median_and_spread(std::vector<double>& times) {
  if (times.empty()) return {0, 0};
  std::sort(times.begin(), times.end());
  const double median = quantile(times, 0.5);
  return {median, median > 0 ? (quantile(times, 0.75) - quantile(times, 0.25)) / 2 / median : 0};
}

/// Returns the time of reading the clock, which is subtracted from each call.
double seconds_of_a_look() {
  constexpr int looks = 256;
  double least = 1;
  for (int k = 0; k < 8; ++k) {
    const Stopwatch all;
    Stopwatch one;
    for (int look = 0; look < looks; ++look) (void)one.restart();
    least = std::min(least, all.seconds() / looks);
  }
  return least;
}

/// Repeats of a list of calls, timed by the host and, on a device, by its queue.
class Timing {
 public:
  Timing(std::vector<TracedOp>& ops, const Device* device)
      : ops_(&ops), device_(device), look_(seconds_of_a_look()) {}

  /// Adds the times of one repeat; `mark`: time of the queue's own marks.
  void add(const std::vector<TracedOp>& calls, bool of_queue, double mark) {
    auto& times = of_queue ? queued_ : host_;
    for (const TracedOp& call : calls) {
      rossby::add(*ops_, call);
      const auto op =
          std::find_if(ops_->begin(), ops_->end(), [&](const TracedOp& known) { return known.like(call); });
      times.resize(ops_->size());
      const double one = (of_queue ? call.queue_seconds : call.seconds) / static_cast<double>(call.calls);
      times[static_cast<std::size_t>(op - ops_->begin())].push_back(
          std::max(one - (of_queue ? mark : look_), 0.0));
    }
  }

  /// Keeps the calls that were timed both ways, with their medians.
  void finish(std::vector<double>& spread) {
    host_.resize(ops_->size());
    queued_.resize(ops_->size());
    std::vector<TracedOp> timed;
    for (std::size_t o = 0; o < ops_->size(); ++o) {
      if (host_[o].empty() || (device_ && queued_[o].empty())) continue;
      TracedOp& op = timed.emplace_back((*ops_)[o]);
      const auto calls = static_cast<double>(op.calls);
      const auto [seconds, apart] = median_and_spread(host_[o]);
      const auto [queue_seconds, queue_apart] = median_and_spread(queued_[o]);
      op.seconds = seconds * calls;
      op.queue_seconds = queue_seconds * calls;
      spread.push_back(device_ ? queue_apart : apart);
    }
    *ops_ = std::move(timed);
  }

 private:
  std::vector<TracedOp>* ops_;
  const Device* device_;
  std::vector<std::vector<double>> host_, queued_;  // seconds per call of each op, by repeat
  double look_;
};

}  // namespace

template <class T>
TimedOps time_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip, const Exec& exec,
                  double seconds, const GoOn& go_on) {
  // On a device, each repeat contains all calls of an epoch.
  const double repeat_seconds = exec.device ? 0.01 : 0.02;
  const std::size_t ways = exec.device ? 2 : 1, fewest_repeats = 3 * ways;
  // Fewer repeats of slow calls.
  const double patience = 4 * seconds;
  const auto again = [&](std::size_t repeats, double so_far, double wanted) {
    return go_on(repeats < ways || so_far < (repeats < fewest_repeats ? patience : wanted));
  };
  TimedOps result;
  StepOps& steps = result.steps;
  Tape<T> tape(exec);
  Step<T> step(task.parameters(), optimiser, reducer, clip, {});
  Walk<T> walk(task, step, tape, optimiser);
  steps.epoch_steps = task.batches();
  const Stopwatch begin;
  // Each repeat contains all kinds of batches, or all batches of a short epoch.
  const std::vector<Index> kinds = task.runs();
  for (const Index batch : kinds) walk.run(batch);
  // The same number on all ranks, because calls are identified by their order.
  Index before = 0;
  while (go_on(before < steps.epoch_steps + 1 && (before < 2 || begin.seconds() < seconds / 2))) {
    walk.next();
    ++before;
  }
  const bool whole = exec.device || before > steps.epoch_steps;
  const Index fewest_steps = exec.device ? std::min<Index>(task.batches(), 64)
                             : whole     ? steps.epoch_steps
                                         : std::ssize(kinds);
  Timing timing(steps.ops, exec.device), validation(steps.validation, exec.device);
  QueueClock queue(exec);
  const double mark = exec.device ? queue.seconds_of_a_mark() : 0;
  const Stopwatch measured;
  // One trace for all repeats: otherwise its allocations would be charged to the same op in each repeat.
  BlockTrace trace(BlockTrace::Of::times_of_ops);
  const auto begin_repeat = [&](bool of_queue) {
    trace.set_queue(of_queue ? &queue : nullptr);
    trace.forget_ops();
    tape.set_trace(&trace);
  };
  const auto keep = [&](Timing& of, bool of_queue) {
    of.add(trace.ops(), of_queue, mark);
    tape.set_trace(nullptr);
  };
  for (std::size_t r = 0; again(r, measured.seconds(), seconds); ++r) {
    const bool of_queue = r % ways == 1;
    begin_repeat(of_queue);
    const Stopwatch repeat;
    Index made = 0;
    do {
      const Stopwatch one;
      whole ? walk.next() : walk.run(kinds[static_cast<std::size_t>(made % std::ssize(kinds))]);
      if (!of_queue) steps.step_seconds.push_back(one.seconds());
      ++steps.steps;
    } while (go_on(++made < fewest_steps || repeat.seconds() < repeat_seconds));
    if (exec.device) exec.device->wait();
    keep(timing, of_queue);
  }
  steps.activation_bytes = static_cast<double>(tape.memory().peak_bytes());
  steps.footprint = footprint(task, tape);
  const auto rehearse = [&](bool of_queue) {
    begin_repeat(of_queue);
    task.rehearse_validation(tape);
    if (exec.device) exec.device->wait();
  };
  tape.reset();
  tape.memory().begin_later_peak();
  rehearse(false);                                     // allocates memory
  const bool validates = go_on(!trace.ops().empty());  // a rank without rows has nothing to forecast
  tape.set_trace(nullptr);
  const Stopwatch validating;
  for (std::size_t r = 0; validates && again(r, validating.seconds(), seconds / 4); ++r) {
    rehearse(r % ways == 1);
    keep(validation, r % ways == 1);
  }
  timing.finish(result.spread);
  set_footprint(steps.ops, steps.footprint);
  validation.finish(result.validation_spread);
  set_footprint(steps.validation, validation_footprint(task, tape));
  return result;
}

template StepOps trace_ops(Task<float>&, Optimiser<float>&, Reducer&, double, const Exec&, TimeGroups,
                           const OpTraceOptions&);
template StepOps trace_ops(Task<double>&, Optimiser<double>&, Reducer&, double, const Exec&, TimeGroups,
                           const OpTraceOptions&);
template TimedOps time_ops(Task<float>&, Optimiser<float>&, Reducer&, double, const Exec&, double,
                           const GoOn&);
template TimedOps time_ops(Task<double>&, Optimiser<double>&, Reducer&, double, const Exec&, double,
                           const GoOn&);

}  // namespace rossby
