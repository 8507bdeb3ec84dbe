#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/whole_graph.hpp"
#include "rossby/plan/asynchronous.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/run/missing_calls.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// What time groups do that do not wait for each other (train.updates = "asynchronous"); seconds are means.
struct AsynchronousPlan {
  double worker_seconds = 0;   // of a sub-batch
  double update_seconds = 0;   // from summing gradients to publishing weights
  double windows = 0;          // of a sub-batch
  AsyncStatistics statistics;  // the mini-batch by sub-batches
  [[nodiscard]] double mini_batch() const { return windows * mean_of(statistics.mini_batch); }
  [[nodiscard]] double staleness() const { return mean_of(statistics.staleness); }
};

/// What a training is predicted to take on the ranks that ask, or was.
struct TrainingPlan {
  std::string model;
  Place place;
  std::string device;  // that each rank computes on; empty: the host's cores
  Index nodes = 0;
  Index batch = 0;            // windows, pairs or steps of the first one, of all groups together
  std::string refused;        // why it does not fit the machine's memory; empty: it does
  Prediction interpolated;    // ops between samples
  std::vector<TracedOp> ops;  // of rank 0, of `traced_steps` steps
  Index traced_steps = 1;
  Index epochs = 0, validations = 0;  // of the whole training, unless it stops earlier
  double footprint = 0;               // bytes that these steps touch
  /// Seconds a step; empty: not measured yet.
  struct Measured {
    double step = 0;
    double forward = 0, backward = 0, reduction = 0, optimiser = 0;
    double waiting = 0;  // for other ranks; part of the others
    double memory_bytes = 0;
    double sent_messages = 0, sent_bytes = 0;  // by all ranks together
    Index steps = 0;                           // that it is the mean of: an epoch's, as measured_in takes it
    std::vector<std::pair<Index, Traffic>> sent_epochs;  // by all ranks together, of epochs made by one run
    double transfer = 0;  // waiting for chunks of streamed relations; part of forward and backward
    double device_bytes = 0;
    bool first_epoch = false;  // its steps are those of the first epoch, there being no other
    double validation = 0;     // seconds of one, the median; 0: there was none
  };
  std::vector<Measured> measured;  // one or none
  /// Of asynchronous updates, whose workers take the passes of `interpolated`; none: they are synchronous.
  std::optional<AsynchronousPlan> asynchronous, asynchronous_measured;

  /// Predicted seconds of all epochs with their validations, beside the start and checkpoints.
  [[nodiscard]] double training_seconds() const {
    const Prediction& p = interpolated;
    return static_cast<double>(epochs) * static_cast<double>(p.epoch_steps) * p.step() +
           static_cast<double>(validations) * p.validation;
  }
  /// Errors of steps and of validations have one cause.
  [[nodiscard]] std::pair<double, double> training_interval() const {
    const Prediction& p = interpolated;
    const double validating = static_cast<double>(validations) * p.validation, all = training_seconds();
    const double stepping = all - validating;
    return interval_of(all, all > 0 ? (stepping * p.doubt + validating * p.validation_doubt) / all : 0);
  }
  /// What plans are compared by: the training or, where it has no epochs, one.
  [[nodiscard]] double compared_seconds() const {
    const Prediction& p = interpolated;
    return epochs > 0 ? training_seconds() : static_cast<double>(p.epoch_steps) * p.step();
  }
};

/// The training as it is planned: where parallel.device is "auto", on GPUs if the machine was measured with
/// some. Throws UserError where it asks for a device that was not measured.
[[nodiscard]] Config planned_config(const Config& config, const MachineProfile& profile);

/// Traces the training's steps on every rank without computing them and predicts the slowest one's, and what
/// is sent in each of the first `epochs` epochs. With `on_demand` calls that the machine's file lacks are
/// measured first. Throws UserError where the profile has no measurements with so many threads. Collective.
[[nodiscard]] TrainingPlan plan_training(const Communicator& comm, const Config& config,
                                         MeasuredMachine& machine, Index epochs = 0,
                                         OnDemand* on_demand = nullptr);
/// So many are told of in a run's plan.json.
constexpr Index planned_epochs = 100;

/// Ranks that are not there.
struct Job {
  int ranks = 1;
  int on_host = 1;  // ranks to a host
  int threads = 1;  // of a rank
};

/// Predicts the training on them, traced by this process alone: on all of them where they are four or fewer,
/// or 16 or fewer row blocks, otherwise on those that have most to do. `whole`: of the same data and
/// relations. Throws UserError as plan_training and make_run do. Not collective.
[[nodiscard]] TrainingPlan plan_job(const Config& config, const MeasuredMachine& machine, const Job& job,
                                    WholeGraph& whole);

/// What one of its ranks takes; time_groups is 1.
[[nodiscard]] Prediction predict_rank(const Config& config, const MeasuredMachine& machine, const Job& job,
                                      int rank, WholeGraph& whole);

/// Threads of a rank of such a job: parallel.threads, or OMP_NUM_THREADS, or the machine's cores shared by
/// the ranks on it.
[[nodiscard]] int threads_of_job(const Config& config, const MeasuredMachine& machine, int on_host);

/// plan.json of a run directory (apps/schemas/plan.schema.json).
[[nodiscard]] nlohmann::ordered_json json_of(const TrainingPlan& plan);
[[nodiscard]] TrainingPlan plan_of(const nlohmann::ordered_json& json, const std::string& origin);
/// "X an epoch of N steps, Y a validation, Z the training of E epochs": as long as it may take.
[[nodiscard]] std::string duration_text(const TrainingPlan& plan);
/// "(4.1ms to 5.2ms)".
[[nodiscard]] std::string between_text(const std::pair<double, double>& interval);
/// A table for the console.
[[nodiscard]] std::string text_of(const TrainingPlan& plan);
/// More of the time than this in calls far from all that were measured is told.
constexpr double far_share_told = 0.1;
/// Lines that say what of it no measurement stands behind; empty: nothing.
[[nodiscard]] std::string caveats(const Prediction& prediction);
[[nodiscard]] std::vector<std::string> caveat_lines(const Prediction& prediction);

/// The measured part, out of a run's metrics.jsonl; empty where it has no epoch. Of the epochs but the first
/// that one start made as a whole, the one of median time (of the middle two, the faster); where there is
/// none, the first; where that was not made as a whole either, of all others.
[[nodiscard]] std::vector<TrainingPlan::Measured> measured_in(const std::string& metrics_file);

/// The file of a run directory.
[[nodiscard]] std::string plan_file_of(const std::string& run);

}  // namespace rossby
