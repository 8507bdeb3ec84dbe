#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rossby/io/config.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/plan/prediction.hpp"

namespace rossby {

/// What a training is predicted to take on the ranks that ask, or was.
struct TrainingPlan {
  std::string model;
  Place place;
  int time_groups = 1;
  Index nodes = 0;
  Prediction interpolated;    // ops between samples
  Prediction modelled;        // ops by their polynomials (OpModel)
  std::vector<TracedOp> ops;  // of rank 0, of `traced_steps` steps
  Index traced_steps = 1;
  /// Seconds a step; empty: not measured yet.
  struct Measured {
    double step = 0;
    double forward = 0, backward = 0, reduction = 0, optimiser = 0;
    double waiting = 0;  // for other ranks; part of the others
    double memory_bytes = 0;
    Index steps =
        0;  // that it is the mean of: the epoch of median time, but for the first where there is another
  };
  std::vector<Measured> measured;  // one or none
};

/// Traces the training's steps on every rank without computing them and predicts the slowest one's. Throws
/// UserError where the profile has no measurements with so many threads. Collective.
[[nodiscard]] TrainingPlan plan_training(const Communicator& comm, const Config& config,
                                         const MachineProfile& profile);

/// plan.json of a run directory (apps/schemas/plan.schema.json).
[[nodiscard]] nlohmann::ordered_json json_of(const TrainingPlan& plan);
[[nodiscard]] TrainingPlan plan_of(const nlohmann::ordered_json& json, const std::string& origin);
/// A table for the console.
[[nodiscard]] std::string text_of(const TrainingPlan& plan);

/// The measured part, out of a run's metrics.jsonl; empty where it has no epoch.
[[nodiscard]] std::vector<TrainingPlan::Measured> measured_in(const std::string& metrics_file);

/// The file of a run directory.
[[nodiscard]] std::string plan_file_of(const std::string& run);

}  // namespace rossby
