#pragma once

#include <functional>
#include <vector>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// What a rank, or several, send in an epoch, with what they send on the way to it from the one before.
struct EpochTraffic {
  Index steps = 0;
  Traffic sent;
};

/// One step in the order in which it is made.
struct TracedStep {
  std::vector<TracedOp> ops;
  std::vector<TracedLeg> legs;  // of these ops
};

/// The calls that steps of a training make: of ops, forward and backward, and of what a step does beside them
/// ("catch_up" of table rows, "clear_gradients", the "reduction" over ranks, the "optimiser").
struct StepOps {
  std::vector<TracedOp> ops;
  Index steps = 0;              // that made these calls
  Index epoch_steps = 0;        // of a whole epoch
  double activation_bytes = 0;  // most values, gradients and scratch of a step at once
  double footprint = 0;  // bytes that steps touch: activations, parameters, their gradients and moments
  std::vector<EpochTraffic> sent_epochs;  // of the first epochs, by this rank; none: all are as these steps
  /// Resident memory that the host would take, where a device was traced over: of all arrays of the training
  /// with the most that steps ever take, and (from who traces) of lists that its objects keep.
  double array_bytes = 0, list_bytes = 0;
  bool cuts_graph = false;    // whether its rows are a part of a graph that was cut (from who traces)
  double streamed_bytes = 0;  // of relations and moments that would rest in files (from who traces)
  double settled_bytes = 0;   // of array_bytes what is left behind the first steps, whose arenas still grow,
                              // with what a validation takes
  double device_bytes = 0;    // most that the device holds that was traced over
  double device_waits = 0;    // of the host for the device, a step: at its end, or none where steps run ahead
  Traffic sent;         // in these steps, by this rank, through all its ports, where a trace was told of them
  TracedStep in_order;  // of the longest run of batches, where stages hand something over
  std::vector<double> step_seconds;  // of each step, where they were timed
  std::vector<TracedOp> validation;  // calls of one, with the tables that are caught up for it where it is
                                     // traced; where it is timed, of some forecasts
  double validation_waits = 0;       // of the host for the device in it
};

/// How long steps are followed.
struct OpTraceOptions {
  std::function<Traffic()> sent;  // so far, by this rank
  bool validates = false;         // a validation is traced, too; memory counts what it takes
  Index most_steps = 400;  // of an epoch that are traced, after as many that are not: an epoch in, tables are
                           // behind as far as they will be for the rest of the training
};

/// Traces the steps of an epoch, over an idle device without computing. Where no parameter is a table, all
/// batches of a run (Task::runs) cost the same: one of each is traced, and counted as often as an epoch has
/// it.
/// Collective.
template <class T>
[[nodiscard]] StepOps trace_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                const Exec& exec, TimeGroups groups, const OpTraceOptions& options = {});

/// What calls took: TracedOp::seconds is of all its calls, the median over repeats of one call times calls;
/// so is, on a device, TracedOp::queue_seconds.
struct TimedOps {
  StepOps steps;
  /// Of each op, of steps and of the validation: half the distance of the quartiles over the median, of a
  /// device the queue's.
  std::vector<double> spread, validation_spread;
};

/// Whether all ranks make another step, or another repeat, of whether this one wants it; returns on all of
/// them at once: ranks make the same steps at the same time, and disturb each other as in a training.
using GoOn = std::function<bool(bool mine)>;

/// Computes and times steps for `seconds` or a little longer, three repeats or, where they take very long,
/// one at least, that learn next to nothing (Walk); then a validation in the same way. Which they are depends
/// on what `go_on` says alone. On a device repeats that time its queue, which is kept busy meanwhile, take
/// turns with those that time the host, without marks in between.
template <class T>
[[nodiscard]] TimedOps time_ops(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                const Exec& exec, double seconds, const GoOn& go_on);

}  // namespace rossby
