#pragma once

#include <functional>
#include <optional>
#include <string>

#include "rossby/run/planning.hpp"
#include "rossby/run/train.hpp"

// Predicts a training that is about to run (TrainOptions::machine), and compares the prediction afterwards.

namespace rossby {

/// Returns the prediction, made before the training takes its memory; nullopt if no machine is named. A run
/// that goes on does so even if planning fails, as of starts that are refused today. Collective.
[[nodiscard]] std::optional<TrainingPlan> predict_run(const Communicator& comm, const Config& config,
                                                      const TrainOptions& options, bool resumes);

/// Prints the prediction. On rank 0.
void print_prediction(const TrainingPlan& plan);

/// Writes <run>/plan.json: before the training, and again with measurements. On rank 0.
void write_prediction(const std::string& run, const TrainingPlan& plan);

/// Compares the prediction with the metrics of the finished training, and writes both. `trained_here`, on
/// rank 0: true if the last epoch was trained on ranks like these; if not, nothing is compared. Collective.
void compare_prediction(const Communicator& comm, const TrainOptions& options, const std::string& metrics,
                        TrainingPlan plan, const std::function<bool()>& trained_here);

/// True if a finished run has no prediction, and was trained with these settings on ranks like these.
/// Collective.
[[nodiscard]] bool lacks_prediction(const Communicator& comm, const Config& asked, const std::string& run,
                                    const std::function<bool()>& trained_here);

}  // namespace rossby
