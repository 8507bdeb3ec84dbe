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

/// Plan of time groups that do not wait for each other (train.updates = "asynchronous"); seconds are means.
struct AsynchronousPlan {
  double worker_seconds = 0;   // per sub-batch
  double update_seconds = 0;   // from summing gradients to publishing weights
  double windows = 0;          // per sub-batch
  AsyncStatistics statistics;  // the mini-batch by sub-batches
  [[nodiscard]] double mini_batch() const { return windows * mean_of(statistics.mini_batch); }
  [[nodiscard]] double staleness() const { return mean_of(statistics.staleness); }
};

/// Predicted or measured cost of a training on the ranks of this job.
struct TrainingPlan {
  std::string model;
  Place place;
  std::string device;  // of each rank; empty: the host's cores
  Index nodes = 0;
  Index batch = 0;            // windows, pairs or steps of batch 1, all groups
  std::string refused;        // why it does not fit in memory; empty: it fits
  Prediction interpolated;    // times of ops interpolated between samples
  std::vector<TracedOp> ops;  // of rank 0, of `traced_steps` steps
  Index traced_steps = 1;
  Index epochs = 0, validations = 0;  // of the whole training, without early stop
  double footprint = 0;               // bytes that these steps touch
  /// Seconds per step; empty if not measured yet.
  struct Measured {
    double step = 0;
    double forward = 0, backward = 0, reduction = 0, optimiser = 0;
    double waiting = 0;  // for other ranks; included in other parts
    double memory_bytes = 0;
    double sent_messages = 0, sent_bytes = 0;            // of all ranks
    Index steps = 0;                                     // in the mean: an epoch's, see measured_in
    std::vector<std::pair<Index, Traffic>> sent_epochs;  // of all ranks, epochs of one run
    double transfer = 0;  // waiting for chunks of streamed relations; in forward and backward
    double device_bytes = 0;
    bool first_epoch = false;  // only the first epoch could be measured
    double validation = 0;     // median seconds; 0: there was none
  };
  std::vector<Measured> measured;  // one or none
  /// Asynchronous updates, whose workers run the passes of `interpolated`; none if updates are synchronous.
  std::optional<AsynchronousPlan> asynchronous, asynchronous_measured;

  /// Predicted seconds of all epochs and validations, without the start and checkpoints.
  [[nodiscard]] double training_seconds() const {
    const Prediction& p = interpolated;
    return static_cast<double>(epochs) * static_cast<double>(p.epoch_steps) * p.step() +
           static_cast<double>(validations) * p.validation;
  }
  /// Errors of steps and of validations are correlated: they have one cause.
  [[nodiscard]] std::pair<double, double> training_interval() const {
    const Prediction& p = interpolated;
    const double validating = static_cast<double>(validations) * p.validation, all = training_seconds();
    const double stepping = all - validating;
    return interval_of(all, all > 0 ? (stepping * p.doubt + validating * p.validation_doubt) / all : 0);
  }
  /// Seconds to compare plans by: of the training or, if it has no epochs, of one epoch.
  [[nodiscard]] double compared_seconds() const {
    const Prediction& p = interpolated;
    return epochs > 0 ? training_seconds() : static_cast<double>(p.epoch_steps) * p.step();
  }
};

/// Returns the configuration to plan: with parallel.device = "auto", on GPUs if the machine's measurements
/// include GPUs. Throws UserError if the device was not measured.
[[nodiscard]] Config planned_config(const Config& config, const MachineProfile& profile);

/// Traces the training's steps on every rank without computing them. Predicts the time of the slowest rank,
/// and the messages of each of the first `epochs` epochs. With `on_demand`, first measures calls that the
/// machine file lacks. Throws UserError if the profile has no measurements with this number of threads.
/// Collective.
[[nodiscard]] TrainingPlan plan_training(const Communicator& comm, const Config& config,
                                         MeasuredMachine& machine, Index epochs = 0,
                                         OnDemand* on_demand = nullptr);
/// Number of epochs in a run's plan.json.
constexpr Index planned_epochs = 100;

/// A job on ranks that do not exist here.
struct Job {
  int ranks = 1;
  int on_host = 1;  // ranks per host
  int threads = 1;  // per rank
};

/// Predicts the training on the ranks of `job`, traced by this process only. Traces all ranks if there are at
/// most four of them or at most 16 row blocks, otherwise the ranks with most work. `whole`: of the same data
/// and relations. Throws UserError as plan_training and make_run do. Not collective.
[[nodiscard]] TrainingPlan plan_job(const Config& config, const MeasuredMachine& machine, const Job& job,
                                    WholeGraph& whole);

/// Predicts one rank of the job; time_groups is 1.
[[nodiscard]] Prediction predict_rank(const Config& config, const MeasuredMachine& machine, const Job& job,
                                      int rank, WholeGraph& whole);

/// Threads per rank of such a job: parallel.threads, or OMP_NUM_THREADS, or the machine's cores divided by
/// the ranks on it.
[[nodiscard]] int threads_of_job(const Config& config, const MeasuredMachine& machine, int on_host);

/// Returns plan.json of a run directory (apps/schemas/plan.schema.json).
[[nodiscard]] nlohmann::ordered_json json_of(const TrainingPlan& plan);
[[nodiscard]] TrainingPlan plan_of(const nlohmann::ordered_json& json, const std::string& origin);
/// "X an epoch of N steps, Y a validation, Z the training of E epochs", with the longest times.
[[nodiscard]] std::string duration_text(const TrainingPlan& plan);
/// "(4.1ms to 5.2ms)".
[[nodiscard]] std::string between_text(const std::pair<double, double>& interval);
/// A table for the console.
[[nodiscard]] std::string text_of(const TrainingPlan& plan);
/// The plan mentions calls far from all measurements if they take more than this share of the time.
constexpr double far_share_told = 0.1;
/// Lines on parts of the plan without nearby measurements; empty if there are none.
[[nodiscard]] std::string caveats(const Prediction& prediction);
[[nodiscard]] std::vector<std::string> caveat_lines(const Prediction& prediction);

/// Reads the measured part from a run's metrics.jsonl; empty if it has no epoch. Takes the epoch of median
/// time (of the middle two, the faster) among epochs that one start trained whole, without the first. If
/// there is none, takes the first epoch; if that was interrupted too, takes all others.
[[nodiscard]] std::vector<TrainingPlan::Measured> measured_in(const std::string& metrics_file);

/// Returns the plan file of a run directory.
[[nodiscard]] std::string plan_file_of(const std::string& run);

}  // namespace rossby
