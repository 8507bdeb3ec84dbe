#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/op_times.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// What a plan may measure of calls that its machine's file lacks. The same on every rank.
struct OnDemand {
  std::string file;       // the machine's, which keeps what is measured
  double seconds = 5;     // that are left for measuring
  bool prints = true;     // rank 0 says what was measured, and why something was not
  std::string said = {};  // the last such line
};

/// Seconds that a plan may measure: one training, and a table of candidates.
constexpr double seconds_for_training = 5, seconds_for_candidates = 30;

/// Measures the calls of a training's steps and validations, `mine` being this rank's, on the ranks that are
/// there, if much of their time is in calls that `machine` has nothing near. All ranks compute their own
/// steps at the same time, on made-up values and without messages. Adds what was measured to `machine` and to
/// the file. What goes wrong is said, and the plan is made from what is known: another machine, a training
/// that takes too long, a file that cannot be written. Trainings on devices and streamed relations are not
/// measured. Collective.
void measure_missing(const Communicator& comm, const Config& config, const Place& place, const StepOps& mine,
                     MeasuredMachine& machine, OnDemand& on_demand);

}  // namespace rossby
