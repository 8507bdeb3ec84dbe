#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/stopwatch.hpp"
#include "rossby/io/run_directory.hpp"
#include "rossby/run/asynchronous_run.hpp"
#include "rossby/run/checkpoints.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/stop_request.hpp"
#include "rossby/run/train.hpp"

namespace rossby {

/// One start of a training in a run directory: steps, checkpoints, signals, rollbacks. The lib's loop says
/// what a checkpoint holds, this decides when there is one, and what happens when something goes wrong.
template <class T>
class Training {
 public:
  /// `config` is what the user asked for. Both outlive it.
  Training(const Communicator& comm, const Config& config, const TrainOptions& options, ModelRun<T>& run);

  /// Before fit: the directory where metrics go, on rank 0; null elsewhere. Metrics of epochs that are still
  /// to come are dropped from it. Throws UserError if there is no room for a checkpoint. Collective.
  void use(const RunDirectory* directory);

  /// Goes to `first`, or where its arrays are damaged to the first good one of rank 0's `candidates`
  /// (with a warning). Throws UserError where data or model are others, or none is good. Collective.
  void resume(Checkpoint first, std::vector<std::string> candidates);

  /// Trains. Throws UserError naming tensor, rank and rows where a loss is not finite and may not be rolled
  /// back. Collective.
  TrainingResult fit();

  /// Ends without another step: the parameters become those of the checkpoint that was resumed, the best ones
  /// if they are kept. Collective.
  TrainingResult finish() { return trainer_.finish(StopReason::asked); }

  /// Optimiser steps of train.epochs.
  [[nodiscard]] Index all_steps() const { return options_.epochs * task_->batches_in(0); }
  /// The validation error where fit has paused; nothing may be trained afterwards. Collective.
  [[nodiscard]] double validate() { return trainer_.validate(); }

  /// Why fit has paused: a signal, train.stop_after, or the end of the job. Collective.
  [[nodiscard]] std::string why_paused();
  /// Lines on what the environment says and is not believed; empty: nothing.
  [[nodiscard]] std::string doubts() const;
  /// Why nothing is left to do, or nullopt.
  [[nodiscard]] std::optional<StopReason> over() const { return trainer_.over(); }
  [[nodiscard]] TrainingState state() const { return trainer_.state(); }
  /// "validation mae 1.76 m s-1": a validation error with its metric and unit.
  [[nodiscard]] std::string validation_text(double error) const;
  /// Path of the checkpoint that was written last by this start; empty: none.
  [[nodiscard]] const std::string& saved() const { return saved_; }
  /// "3 checkpoints in 0.3 s, 0.8 % of the time"; empty where there were none.
  [[nodiscard]] std::string checkpoint_summary(double seconds) const;
  /// A line on asynchronous updates; empty: they are synchronous.
  [[nodiscard]] std::string updates_remark() const { return asynchronous_ ? asynchronous_->remark() : ""; }
  /// What they were like in the epochs that this start has trained.
  [[nodiscard]] const UpdateCounts& updates() const { return updates_; }
  /// Whether the last epoch of this metrics.jsonl was trained on ranks and threads as these are, on a device
  /// of this kind or on none; processor and version do not count. Of a run without an epoch it was not.
  [[nodiscard]] bool last_trained_here(const std::string& metrics) const;

 private:
  void observe(const EpochReport& report);
  void warn_of_short_grace(double step_seconds);
  [[nodiscard]] unsigned vote();
  void save(SaveReason reason);
  void log_save(double seconds);
  [[nodiscard]] StepSeconds mean_over_ranks(const StepSeconds& mine);
  [[nodiscard]] nlohmann::ordered_json metadata(const TrainingState& state) const;
  void load(const Checkpoint& checkpoint);
  void check_finite();
  void cut_metrics();
  void recover(const NotFinite& error);
  [[nodiscard]] double since_save() const;

  Communicator comm_;
  int hosts_;
  std::string processor_;  // of this rank
  const Config* config_;
  const TrainOptions* start_;
  const RunDirectory* directory_ = nullptr;
  CheckpointFolder folder_;
  ModelRun<T>* run_;
  std::unique_ptr<Task<T>> task_;
  TrainerOptions options_;
  std::unique_ptr<AsynchronousRun<T>> asynchronous_;  // null: updates are synchronous
  Optimiser<T> optimiser_;
  Trainer<T> trainer_;
  ProgressLine progress_;
  TimeGuard guard_;
  bool keeps_checkpoints_;
  std::optional<StopSignals> signals_;  // without checkpoints they end the process, as ever
  Index rollbacks_ = 0;
  Index failed_step_ = 0;     // of the last rollback: where it was needed,
  Index rolled_back_to_ = 0;  // and where it led
  bool looked_at_grace_ = false;
  std::string saved_;
  Stopwatch save_time_;
  double save_seconds_ = 0;  // of the last one
  double all_save_seconds_ = 0;
  Index saves_ = 0;
  UpdateCounts updates_;
};

}  // namespace rossby
