#pragma once

#include <functional>
#include <optional>
#include <string>

#include "rossby/run/planning.hpp"
#include "rossby/run/train.hpp"

// The prediction of a training that is about to run (TrainOptions::machine), and how it compares afterwards.

namespace rossby {

/// The prediction, made before the training takes its memory; nothing if no machine is named. A run that goes
/// on does so without a prediction if there can be none, as of starts that are refused today. Collective.
[[nodiscard]] std::optional<TrainingPlan> predict_run(const Communicator& comm, const Config& config,
                                                      const TrainOptions& options, bool resumes);

/// Prints what is to come. On rank 0.
void print_prediction(const TrainingPlan& plan);

/// Writes <run>/plan.json: before the training, and again with what was measured. On rank 0.
void write_prediction(const std::string& run, const TrainingPlan& plan);

/// Compares the prediction with the metrics of the training that has ended, and writes both. `trained_here`
/// says on rank 0 whether its last epoch was made on ranks as these: if not there is nothing to compare.
/// Collective.
void compare_prediction(const Communicator& comm, const TrainOptions& options, const std::string& metrics,
                        TrainingPlan plan, const std::function<bool()>& trained_here);

/// Whether a run that has ended has no prediction, and was trained with these settings on ranks as these are.
/// Collective.
[[nodiscard]] bool lacks_prediction(const Communicator& comm, const Config& asked, const std::string& run,
                                    const std::function<bool()>& trained_here);

}  // namespace rossby
