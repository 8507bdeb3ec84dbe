#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/stopwatch.hpp"
#include "rossby/train/schedule.hpp"
#include "rossby/train/step.hpp"
#include "rossby/train/training_state.hpp"

namespace rossby {

/// Interface of a model to the training loop: its batches and losses. Every rank calls the same functions in
/// the same order.
template <class T>
class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() = 0;
  /// Returns the number of batches of the current epoch, and of any epoch.
  [[nodiscard]] virtual Index batches() const = 0;
  [[nodiscard]] virtual Index batches_in(Index) const { return batches(); }
  /// Returns one batch of each kind in an epoch, if kinds have different losses.
  [[nodiscard]] virtual std::vector<Index> kinds() const { return {0}; }
  /// Returns the first batch of each run of batches of one kind and, on every rank, one size. The same on all
  /// ranks.
  [[nodiscard]] virtual std::vector<Index> runs() const { return kinds(); }
  virtual void start_epoch(Index epoch) = 0;
  /// Returns the number of parts of a batch. Each part has its own forward and backward; their gradients add
  /// up.
  [[nodiscard]] virtual Index parts() const { return 1; }
  /// Records the losses of batch `index` of the epoch, or of its first part. `step` counts optimiser steps
  /// from 0.
  virtual void record(Tape<T>& tape, Index index, Index step, Losses& losses) = 0;
  /// Records the losses of part 1, 2, … of the current batch, in the same terms.
  virtual void record_part(Tape<T>&, Index) {}
  /// Weight in epoch means, and number of (node, step) pairs, of the batch recorded last.
  [[nodiscard]] virtual double weight() const = 0;
  [[nodiscard]] virtual double node_steps() const = 0;
  /// Returns the sizes that determine the calls of batch `index`, the same in all groups. Batches of the same
  /// sizes send as much, apart from what they bring and draw. Empty: unknown.
  [[nodiscard]] virtual std::vector<Index> sizes(Index) const { return {}; }
  /// Brings the time steps of batch `index` that other groups hold, as `record` does.
  virtual void bring(Index) {}
  /// Returns the random flags of optimiser step `step`; each flag changes the calls of the step.
  [[nodiscard]] virtual std::vector<bool> drawn(Index) const { return {}; }
  /// Fixes the random flags of all further steps.
  virtual void fix_drawn(std::vector<bool>) {}
  /// Returns the validation error (smaller is better), with the same bits on every rank; NaN without a
  /// validation part. Runs between two steps, in the memory of the tape's steps.
  [[nodiscard]] virtual double validate(Tape<T>& tape) = 0;
  /// Traces one call of each kind in a validation, over a device that holds no memory. After each, calls
  /// `made` with the number of such calls. Collective.
  using Made = std::function<void(Index times)>;
  virtual void trace_validation(Tape<T>&, const Made&) {}
  /// Makes the first forecasts of a validation, for timing. Collective.
  virtual void rehearse_validation(Tape<T>&) {}
  /// Returns the name of the validation error.
  [[nodiscard]] virtual std::string_view validation_name() const { return "rmse"; }

  // For asynchronous updates: each time group trains only on its share of a batch.

  /// A group's share of a batch: windows, and observed targets of all rows.
  struct Share {
    Index windows = 0;
    double targets = 0;
  };
  [[nodiscard]] virtual Share share(Index, int) const { bug("batches of this task have no shares"); }
  /// Makes `record` record only the share of this group from now on. Its one loss is a sum over its targets.
  virtual void record_share_of(int) { bug("batches of this task have no shares"); }
  [[nodiscard]] virtual std::string_view loss_name() const { return "loss"; }
};

/// Trains the batches of an epoch in place of steps.
template <class T>
class EpochUpdates {
 public:
  virtual ~EpochUpdates() = default;
  /// Continues the epoch that the task has started, from `now`, until its batches are done or a rank votes.
  /// On return, `now` holds the progress and the model the newest weights. Calls `begin` before each step or
  /// sub-batch; calls `vote` then and while this rank waits (both may be empty). Returns the union of all
  /// votes. Throws NotFinite as Step does, with the sums in the model's gradients. Collective.
  virtual unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
                       const std::function<void()>& begin) = 0;
  /// Copies the model's values, which a caller has set, to its device; does nothing without one.
  virtual void send() {}
  /// Returns the seconds of the last run on this rank; waiting is part of `reduction`.
  [[nodiscard]] virtual const StepSeconds& seconds() const = 0;
};

struct TrainerOptions {
  Index epochs = 100;
  Index early_stop = 0;    // epochs without improvement; 0: never
  double max_seconds = 0;  // 0: no limit
  Index validate_every = 1;
  bool watch_validation = true;  // input of schedule and early stopping; false: training loss
  bool keep_best = true;         // restore the best state at the end
  double clip = 0;
  Index save_every = 0;      // steps between checkpoints; 0: only if a rank votes for one
  double rollback_lr = 0.5;  // factor on the learning rate for each rollback
  bool check_ops = false;    // check the values of every op (OpCheck): the same bits, but slower
};

/// Mean of one loss term over the epoch, weighted by batch.
struct TermMean {
  std::string_view name;
  double value = 0;
};

struct EpochReport {
  Index epoch = 0;  // 0-based
  Index steps = 0;  // optimiser steps so far
  double lr = 0;
  double loss = 0;  // sum of the term means
  std::vector<TermMean> terms;
  double validation = std::numeric_limits<double>::quiet_NaN();
  bool best = false;
  double epoch_seconds = 0;       // training steps only
  double validation_seconds = 0;  // with late updates of tables before it; 0: no validation in this epoch
  StepSeconds seconds;            // of this rank's steps; before a checkpoint, the mean of all ranks
  Traffic sent;                   // in the steps and since the epoch before, by this rank
  bool sent_whole = false;        // one run made all steps of the epoch
  Moved moved;                    // chunks of streamed relations in this run's steps, on this rank
  double total_seconds = 0;
  double batches_per_second = 0;
  double node_steps_per_second = 0;
  Index rollbacks = 0;   // total
  UpdateCounts updates;  // of asynchronous training
};

enum class StopReason { epochs, early_stop, plateau, time, asked, paused };
[[nodiscard]] std::string_view to_string(StopReason reason);

struct TrainingResult {
  StopReason reason = StopReason::epochs;
  Index epochs = 0;
  Index steps = 0;
  Index best_epoch = -1;
  double best_metric = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;
};

/// An array of a training's state, with the layout of its parameter: "<name>" is the value, "<name>.first"
/// and "<name>.second" are the moments, "<name>.best" is the value in the best state.
template <class T>
struct NamedArray {
  std::string name;
  const Parameter<T>* parameter = nullptr;
  T* data = nullptr;
  Bf16* bf16 = nullptr;        // in place of `data` if the parameter is in bf16
  FileMemory* file = nullptr;  // the file that holds the array; null: none

  NamedArray(std::string n, const Parameter<T>* p, Buffer<T>& values, Buffer<Bf16>& narrow)
      : name(std::move(n)),
        parameter(p),
        data(values.data()),
        bf16(narrow.data()),
        file(p->in_bf16 ? narrow.file() : values.file()) {}
};

/// Reason for a checkpoint: its time has come, the training pauses, or it has ended.
enum class SaveReason { due, pause, end };

/// Callbacks of the training loop; any may be empty. All are called on every rank.
struct TrainerHooks {
  std::function<void(const EpochReport&)> observe;  // after every epoch
  std::function<void()> begin;                      // before every step, or sub-batch of this rank
  std::function<unsigned()> vote;                   // before every step: a sum of Vote
  std::function<double()> waited;                   // total seconds of waiting for other ranks
  std::function<Traffic()> sent;                    // total traffic sent by this rank
  std::function<void(SaveReason)> save;             // between two steps: write state() and arrays()
};

/// The training loop: epochs of steps, schedule, validation, early stopping, best state.
template <class T>
class Trainer {
 public:
  Trainer(const TrainerOptions& options, const ScheduleOptions& schedule, Task<T>& task,
          Optimiser<T>& optimiser, Reducer& reducer, const Exec& exec, TimeGroups groups = {});

  /// Lets `updates` train the batches of an epoch. `updates` must outlive this object and share its
  /// optimiser.
  void train_by(EpochUpdates<T>& updates) { updates_ = &updates; }

  /// Runs from the start or the restored state to the end, or until a rank votes to pause. Throws NotFinite
  /// as Step does; the caller may then restore a state and call `run` again.
  TrainingResult run(const TrainerHooks& hooks);
  /// Leaves the parameters as if the training ended now: with late updates made, and with the best values if
  /// TrainerOptions::keep_best. No training may follow.
  TrainingResult finish(StopReason end);
  /// Runs with these callbacks alone. `vote_stop` (may be empty) is called before every step and returns true
  /// if this rank wants to finish.
  TrainingResult run(const std::function<void(const EpochReport&)>& observe,
                     const std::function<bool()>& vote_stop = {});

  /// Returns the validation error of the present parameters. No step may follow, because late updates are
  /// made.
  [[nodiscard]] double validate() {
    optimiser_->settle(update_exec());
    return task_->validate(tape_);
  }

  /// Returns the progress of the training. Together with `arrays` it determines all further steps: after a
  /// restore they have the same bits (at the same rank count, instruction set and products of dense
  /// relations).
  [[nodiscard]] TrainingState state() const;
  /// The same with every time group's state of the steps that it holds, as a checkpoint needs it. Collective
  /// over groups.
  [[nodiscard]] TrainingState state_of_groups() const;
  /// Returns the total number of optimiser steps.
  [[nodiscard]] Index steps() const { return now_.steps; }
  /// Returns all arrays of the state; valid until the next step. `has_best`: includes the best state
  /// (TrainingState::has_best).
  [[nodiscard]] std::vector<NamedArray<T>> arrays(bool has_best);
  /// Restores a state whose arrays are already filled in. Throws UserError if it belongs to another model.
  void restore(const TrainingState& state);
  /// Returns the reason why no work is left; nullopt if there is work.
  [[nodiscard]] std::optional<StopReason> over() const;

  [[nodiscard]] const Tape<T>& tape() const { return tape_; }

 private:
  [[nodiscard]] Exec update_exec() const;
  void send();
  /// A step whose losses are pending on a device.
  struct Owed {
    Losses losses;
    double weight = 0;
    Index step = 0, batch = 0;  // values of now_ before the step
    bool ahead = false;         // its losses are only this rank's
  };

  [[nodiscard]] EpochReport new_report() const;
  unsigned run_epoch(double lr, const TrainerHooks& hooks);
  unsigned run_epoch_by_updates(double lr, const TrainerHooks& hooks);
  typename Step<T>::Result run_step(double lr, unsigned votes, Losses& losses,
                                    const std::function<void(Index part)>& record);
  void end_epoch(EpochReport& report, bool leaving, const TrainerHooks& hooks);
  void add_terms(const Losses& losses, double weight);
  void collect(bool here);
  void keep();
  void take_best();
  [[nodiscard]] TrainingResult result(StopReason end) const;
  [[nodiscard]] double elapsed() const;

  TrainerOptions options_;
  Schedule schedule_;
  Task<T>* task_;
  Optimiser<T>* optimiser_;
  TimeGroups groups_;
  Tape<T> tape_;
  std::unique_ptr<OpCheck<T>> check_;  // null: no check
  Step<T> step_;
  EpochUpdates<T>* updates_ = nullptr;  // null: steps are synchronous
  std::deque<Owed> owed_;  // of the last steps; reused by later steps, which write to the same places
  std::size_t owing_ = 0;  // number of pending entries in owed_
  std::vector<Losses*> local_;
  TrainingState now_;  // without schedule, fused_scale and parameters, which their owners keep
  std::vector<Buffer<T>> best_;
  std::vector<Buffer<Bf16>> best_bf16_;
  StepSeconds epoch_seconds_;
  Traffic epoch_sent_;
  Moved epoch_moved_;
  bool follows_ = true;        // this run began the epoch, as its first or after another one
  double seconds_before_ = 0;  // of earlier runs
  Stopwatch begin_;
};

}  // namespace rossby
