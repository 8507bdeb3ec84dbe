#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/op_times.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Limits for measuring calls that the machine's file lacks. The same on every rank.
struct OnDemand {
  std::string file;       // the machine's, to which measurements are added
  double seconds = 5;     // time left for measuring
  bool prints = true;     // rank 0 prints what was measured, and why something was not
  std::string said = {};  // the last printed line
};

/// Seconds that a plan may measure: for one training, and for a table of candidates.
constexpr double seconds_for_training = 5, seconds_for_candidates = 30;

/// Measures the calls of a training's steps and validations on the existing ranks, if much of their time is
/// in calls that `machine` has nothing near. `mine` are this rank's calls. All ranks compute their own steps
/// at the same time, on made-up values and without messages. Adds the results to `machine` and to the file.
/// On failure prints why, and leaves the plan to what is known: another machine, a training that takes too
/// long, a file that cannot be written. Does not measure trainings on devices and streamed relations.
/// Collective.
void measure_missing(const Communicator& comm, const Config& config, const Place& place, const StepOps& mine,
                     MeasuredMachine& machine, OnDemand& on_demand);

}  // namespace rossby
