#pragma once

#include <vector>

#include "rossby/plan/op_times.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/plan/step_ops.hpp"

namespace rossby {

/// What a stage of a pipeline does until it hands something over or has taken something over.
struct Leg {
  double seconds = 0;          // of its own work, before that
  int peer = -1;               // the other stage; -1: nothing moves, the step ends
  bool sends = false;          // or receives
  double message_seconds = 0;  // of what it sends
};
/// A step, forward and backward, in order.
using Timeline = std::vector<Leg>;

/// The step of a stage that was traced, without what follows backward; empty where nothing was handed over.
[[nodiscard]] Timeline timeline_of(const StepOps& stage, const MachineProfile& profile, const OpTimes& times,
                                   const Place& place);

/// What each stage waits for the others, in seconds a step: nobody goes on to the sum over ranks before all
/// stages are done. Stages take turns as their timelines say: one that receives waits for its sender. Throws
/// BugError where they wait for each other for ever.
[[nodiscard]] std::vector<double> pipeline_waits(const std::vector<Timeline>& stages);

}  // namespace rossby
