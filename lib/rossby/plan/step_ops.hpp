#pragma once

#include <functional>
#include <vector>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Traffic of one or several ranks in an epoch, including the traffic since the previous epoch.
struct EpochTraffic {
  Index steps = 0;
  Traffic sent;
};

/// One step in the order of execution.
struct TracedStep {
  std::vector<TracedOp> ops;
  std::vector<TracedLeg> legs;  // made from these ops
};

/// The calls that training steps make: ops, forward and backward, and the work beside them ("catch_up" of
/// table rows, "clear_gradients", the "reduction" over ranks, the "optimiser").
struct StepOps {
  std::vector<TracedOp> ops;
  Index steps = 0;              // steps that made these calls
  Index epoch_steps = 0;        // steps of a whole epoch
  double activation_bytes = 0;  // peak of values, gradients and scratch in a step
  double footprint = 0;         // bytes that steps touch: activations, parameters, gradients and moments
  std::vector<EpochTraffic> sent_epochs;  // of the first epochs, by this rank; none: all equal these steps
  /// Resident memory on the host if a device is traced: of all arrays of the training at the steps' peak, and
  /// of lists that its objects keep (set by the caller).
  double array_bytes = 0, list_bytes = 0;
  bool cuts_graph = false;    // its rows are part of a cut graph (set by the caller)
  double streamed_bytes = 0;  // relations and moments resting in files (set by the caller)
  /// Part of array_bytes after the first steps, whose arenas still grow, including a validation.
  double settled_bytes = 0;
  double device_bytes = 0;  // peak on the traced device
  double device_waits = 0;  // host waits for the device per step: one at its end, or none if steps run ahead
  Traffic sent;             // in these steps, by this rank, through all ports, if the trace has counters
  TracedStep in_order;      // of the longest run of batches, if stages exchange values
  std::vector<double> step_seconds;  // of each step, if timed
  std::vector<TracedOp> validation;  // calls of one validation: traced ones include late updates of tables;
                                     // timed ones cover some forecasts
  double validation_waits = 0;       // host waits for the device in a validation
};

/// Extent of a trace.
struct OpTraceOptions {
  std::function<Traffic()> sent;  // total, by this rank
  bool validates = false;         // also trace a validation; memory then includes it
  Index most_steps = 400;  // traced steps of an epoch, after as many untraced ones: after an epoch, tables
                           // are as far behind as they ever get
};

/// Traces the steps of an epoch over an idle device, without computing. If no parameter is a table, all
/// batches of a run (Task::runs) cost the same: one batch of each run is traced and counted as often as it
/// occurs in an epoch. Collective.
template <class T>
[[nodiscard]] StepOps trace_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                const Exec& exec, TimeGroups groups, const OpTraceOptions& options = {});

/// Measured times of calls. TracedOp::seconds covers all calls of an op: the median over repeats of one
/// call's time, times calls. The same holds for TracedOp::queue_seconds on a device.
struct TimedOps {
  StepOps steps;
  /// For each op of steps and of the validation: half the interquartile range over the median; on a device,
  /// of the queue's times.
  std::vector<double> spread, validation_spread;
};

/// Returns true on all ranks if they make another step or repeat; the argument is this rank's wish. Returns
/// on all ranks at once, so that ranks make the same steps at the same time and disturb each other as in
/// training.
using GoOn = std::function<bool(bool mine)>;

/// Runs and times steps that learn almost nothing (Walk) for `seconds` or a little longer: three repeats, or
/// at least one if they are very long. Then times a validation in the same way. The calls depend only on the
/// results of `go_on`. On a device, repeats that time its busy queue alternate with repeats that time the
/// host, without marks in between.
template <class T>
[[nodiscard]] TimedOps time_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                const Exec& exec, double seconds, const GoOn& go_on);

}  // namespace rossby
