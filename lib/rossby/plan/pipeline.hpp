#pragma once

#include <vector>

#include "rossby/plan/op_times.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/plan/step_ops.hpp"

namespace rossby {

/// The work of a pipeline's stage up to the next message that it sends or receives.
struct Leg {
  double seconds = 0;          // of its own work before the message
  int peer = -1;               // the other stage; −1: no message, the step ends
  bool sends = false;          // false: receives
  double message_seconds = 0;  // of a message that it sends
};
/// A step, forward and backward, in order.
using Timeline = std::vector<Leg>;

/// Returns the step of a traced stage, without the work after backward; empty if it has no hand-over.
[[nodiscard]] Timeline timeline_of(const StepOps& stage, const MachineProfile& profile, const OpTimes& times,
                                   const Place& place);

/// Returns the time that each stage waits for the others, in seconds per step. No stage starts the sum over
/// ranks before all stages are done. A stage that receives waits for its sender, in the order of the
/// timelines. Throws BugError if stages wait for each other forever.
[[nodiscard]] std::vector<double> pipeline_waits(const std::vector<Timeline>& stages);

}  // namespace rossby
