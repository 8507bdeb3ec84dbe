#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/stopwatch.hpp"
#include "rossby/io/run_directory.hpp"
#include "rossby/run/asynchronous_run.hpp"
#include "rossby/run/checkpoints.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/late_metrics.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/stop_request.hpp"
#include "rossby/run/train.hpp"

namespace rossby {

/// One start of a training in a run directory: steps, checkpoints, signals, rollbacks. The loop of lib/ says
/// what a checkpoint holds; this class says when to write one, and what to do on errors.
template <class T>
class Training {
 public:
  /// `config` is the user's configuration. `config`, `options` and `run` must outlive this object.
  Training(const Communicator& comm, const Config& config, const TrainOptions& options, ModelRun<T>& run);

  /// Call before fit. `directory`: for metrics, on rank 0; null elsewhere. Drops metrics of epochs that are
  /// still to come. Throws UserError if there is no room for a checkpoint. Collective.
  void use(const RunDirectory* directory);

  /// Resumes `first` or, if its arrays are damaged, the first good one of rank 0's `candidates` (with a
  /// warning). Throws UserError if data or model differ, or if none is good. Collective.
  void resume(Checkpoint first, std::vector<std::string> candidates);

  /// Trains. Throws UserError naming tensor, rank and rows if a loss is not finite and may not be rolled
  /// back. Collective.
  TrainingResult fit();

  /// Ends without another step. The parameters become those of the resumed checkpoint, or the best ones if
  /// they are kept. Collective.
  TrainingResult finish() { return trainer_.finish(StopReason::asked); }

  /// Optimiser steps of train.epochs.
  [[nodiscard]] Index all_steps() const { return options_.epochs * task_->batches_in(0); }
  /// Returns the validation error at the pause of fit; nothing may be trained afterwards. Collective.
  [[nodiscard]] double validate() { return trainer_.validate(); }

  /// Returns why fit paused: a signal, train.stop_after, or the end of the job. Collective.
  [[nodiscard]] std::string why_paused();
  /// Returns lines on ignored settings of the environment; empty if there are none.
  [[nodiscard]] std::string doubts() const;
  /// Returns why nothing is left to do, or nullopt.
  [[nodiscard]] std::optional<StopReason> over() const { return trainer_.over(); }
  [[nodiscard]] TrainingState state() const { return trainer_.state(); }
  /// "validation mae 1.76 m s-1": a validation error with its metric and unit.
  [[nodiscard]] std::string validation_text(double error) const;
  /// Returns the path of the last checkpoint that this start wrote; empty if it wrote none.
  [[nodiscard]] const std::string& saved() const { return saved_; }
  /// "3 checkpoints in 0.3 s, 0.8 % of the time"; empty if there were none.
  [[nodiscard]] std::string checkpoint_summary(double seconds) const;
  /// Returns a line on asynchronous updates; empty if updates are synchronous.
  [[nodiscard]] std::string updates_remark() const { return asynchronous_ ? asynchronous_->remark() : ""; }
  /// Returns counts of the updates in the epochs of this start.
  [[nodiscard]] const UpdateCounts& updates() const { return updates_; }
  /// True if the last epoch of this metrics.jsonl was trained on the same ranks and threads as now, and on a
  /// device of the same kind or none; processor and version do not count. False if there is no epoch.
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
  std::optional<StopSignals> signals_;  // null without checkpoints: signals end the process as usual
  Index rollbacks_ = 0;
  Index failed_step_ = 0;     // step at which the last rollback was needed,
  Index rolled_back_to_ = 0;  // and step to which it led
  bool looked_at_grace_ = false;
  LateMetrics metrics_;
  std::string saved_;
  Stopwatch save_time_;
  double save_seconds_ = 0;  // of the last checkpoint
  double all_save_seconds_ = 0;
  Index saves_ = 0;
  UpdateCounts updates_;
};

}  // namespace rossby
