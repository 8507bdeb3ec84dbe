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

/// What a model gives the loop: its batches and its losses. Every rank calls the same functions in the same
/// order.
template <class T>
class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() = 0;
  /// Batches of the epoch that was started, and of any epoch.
  [[nodiscard]] virtual Index batches() const = 0;
  [[nodiscard]] virtual Index batches_in(Index) const { return batches(); }
  /// A batch of each kind that an epoch has, where their losses differ.
  [[nodiscard]] virtual std::vector<Index> kinds() const { return {0}; }
  /// The first of each run of batches that are of one kind and, on every rank, of one size. The same on all
  /// ranks.
  [[nodiscard]] virtual std::vector<Index> runs() const { return kinds(); }
  virtual void start_epoch(Index epoch) = 0;
  /// Parts of a batch that are computed one after the other, forward and backward: their gradients add up.
  [[nodiscard]] virtual Index parts() const { return 1; }
  /// Records the losses of batch `index` of the epoch, or of its first part; `step` counts optimiser steps
  /// from 0.
  virtual void record(Tape<T>& tape, Index index, Index step, Losses& losses) = 0;
  /// Those of part 1, 2, … of the batch recorded last; they go to the same terms.
  virtual void record_part(Tape<T>&, Index) {}
  /// The batch recorded last: its weight in epoch means, and the (node, step) pairs it covered.
  [[nodiscard]] virtual double weight() const = 0;
  [[nodiscard]] virtual double node_steps() const = 0;
  /// What the calls of batch `index` of the epoch depend on, of all groups alike: batches of the same sizes
  /// send as much but for what they bring and what they draw. Empty: not told.
  [[nodiscard]] virtual std::vector<Index> sizes(Index) const { return {}; }
  /// Brings the time steps of batch `index` that other groups hold, as `record` does.
  virtual void bring(Index) {}
  /// What optimiser step `step` draws: flags of which each changes its calls by itself.
  [[nodiscard]] virtual std::vector<bool> drawn(Index) const { return {}; }
  /// What every step draws from now on, in place of that.
  virtual void fix_drawn(std::vector<bool>) {}
  /// Validation error (smaller is better), the same bits on every rank; NaN where there is no validation
  /// part. It is computed where the tape's steps are, between two of them, in the memory that they use.
  [[nodiscard]] virtual double validate(Tape<T>& tape) = 0;
  /// One call of each kind that a validation makes, over a device of addresses alone; after each, `made` is
  /// told how many like it there are. Collective.
  using Made = std::function<void(Index times)>;
  virtual void trace_validation(Tape<T>&, const Made&) {}
  /// The first forecasts of a validation, to be timed. Collective.
  virtual void rehearse_validation(Tape<T>&) {}
  /// Which error that is.
  [[nodiscard]] virtual std::string_view validation_name() const { return "rmse"; }

  // For asynchronous updates, whose time groups train on their shares of the batches alone.

  /// A group's share of batch `index` of the epoch: windows, and observed targets of all rows.
  struct Share {
    Index windows = 0;
    double targets = 0;
  };
  [[nodiscard]] virtual Share share(Index, int) const { bug("batches of this task have no shares"); }
  /// From now on `record` records the share of this group alone, whose one loss is a sum over its targets.
  virtual void record_share_of(int) { bug("batches of this task have no shares"); }
  [[nodiscard]] virtual std::string_view loss_name() const { return "loss"; }
};

/// What trains the batches of an epoch in place of steps.
template <class T>
class EpochUpdates {
 public:
  virtual ~EpochUpdates() = default;
  /// Goes on with the epoch that the task has started, from `now`, until its batches are done or a rank
  /// votes; `now` then says how far it has come, and the model holds the newest weights. `begin` is called
  /// before each step or sub-batch, `vote` is asked then, and while this rank waits (both may be empty).
  /// Returns what any rank voted. Throws NotFinite as Step does, with the sums in the model's gradients.
  /// Collective.
  virtual unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
                       const std::function<void()>& begin) = 0;
  /// Of the last run, on this rank: waiting is part of `reduction`.
  [[nodiscard]] virtual const StepSeconds& seconds() const = 0;
};

struct TrainerOptions {
  Index epochs = 100;
  Index early_stop = 0;    // epochs without better; 0: never
  double max_seconds = 0;  // 0: no limit
  Index validate_every = 1;
  bool watch_validation = true;  // what schedule and early stopping look at; false: the training loss
  bool keep_best = true;         // restore the best state at the end
  double clip = 0;
  Index save_every = 0;      // steps between checkpoints; 0: only where a rank votes for one
  double rollback_lr = 0.5;  // factor on the learning rate for each rollback so far
  bool check_ops = false;    // look at what every op computes (OpCheck): the same bits, but slower
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
  double validation_seconds = 0;  // with what tables are caught up for it; 0: this epoch was not validated
  StepSeconds seconds;      // what they went into on this rank; before a checkpoint the mean of all ranks
  Traffic sent;             // in them, and on the way from the epoch before, by this rank
  bool sent_whole = false;  // by one run, all steps of the epoch
  Moved moved;              // chunks of streamed relations, in the steps that this run made, on this rank
  double total_seconds = 0;
  double batches_per_second = 0;
  double node_steps_per_second = 0;
  Index rollbacks = 0;   // so far
  UpdateCounts updates;  // asynchronous ones
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

/// An array of a training's state, laid out as the parameter it belongs to: "<name>" its value,
/// "<name>.first", "<name>.second" its moments, "<name>.best" its value in the best state.
template <class T>
struct NamedArray {
  std::string name;
  const Parameter<T>* parameter = nullptr;
  T* data = nullptr;
  Bf16* bf16 = nullptr;        // in place of `data` where the parameter is in bf16
  FileMemory* file = nullptr;  // where it lies in one

  NamedArray(std::string n, const Parameter<T>* p, Buffer<T>& values, Buffer<Bf16>& narrow)
      : name(std::move(n)),
        parameter(p),
        data(values.data()),
        bf16(narrow.data()),
        file(p->in_bf16 ? narrow.file() : values.file()) {}
};

/// Why a checkpoint is due: its time has come, the training is about to be left, it has ended.
enum class SaveReason { due, pause, end };

/// What the loop asks of those who run it; any may be empty. All are called on every rank.
struct TrainerHooks {
  std::function<void(const EpochReport&)> observe;  // after every epoch
  std::function<void()> begin;                      // before every step, or sub-batch of this rank
  std::function<unsigned()> vote;                   // before every step: a sum of Vote
  std::function<double()> waited;                   // seconds of waiting for other ranks so far
  std::function<Traffic()> sent;                    // by this rank so far
  std::function<void(SaveReason)> save;  // between two steps: state() and arrays() are to be written
};

/// The training loop: epochs of steps, schedule, validation, early stopping, best state.
template <class T>
class Trainer {
 public:
  Trainer(const TrainerOptions& options, const ScheduleOptions& schedule, Task<T>& task,
          Optimiser<T>& optimiser, Reducer& reducer, const Exec& exec, TimeGroups groups = {});

  /// Has `updates` train the batches of an epoch; it outlives this, and its optimiser is this one's.
  void train_by(EpochUpdates<T>& updates) { updates_ = &updates; }

  /// Runs to the end, from the start or from what `restore` took, or until a rank votes to pause. Throws
  /// NotFinite as Step does; a state may be restored then and `run` called again.
  TrainingResult run(const TrainerHooks& hooks);
  /// Leaves the parameters as a training that ended now would: without late updates, the best ones if
  /// TrainerOptions::keep_best. Nothing may be trained afterwards.
  TrainingResult finish(StopReason end);
  /// The same: `vote_stop` (may be empty) is asked before every step whether this rank wants to finish.
  TrainingResult run(const std::function<void(const EpochReport&)>& observe,
                     const std::function<bool()>& vote_stop = {});

  /// The validation error of the parameters as they are. No step may follow: updates that were put off are
  /// made up for.
  [[nodiscard]] double validate() {
    optimiser_->settle(tape_.exec());
    return task_->validate(tape_);
  }

  /// Where the training is. With `arrays` it is all that the steps to come depend on: restored, they give the
  /// same bits (at the same rank count, instruction set and products of dense relations).
  [[nodiscard]] TrainingState state() const;
  /// The same with what every time group knows of the steps that it holds: what a checkpoint needs.
  /// Collective over groups.
  [[nodiscard]] TrainingState state_of_groups() const;
  /// Optimiser steps so far.
  [[nodiscard]] Index steps() const { return now_.steps; }
  /// All arrays of the state; valid until the next step. `has_best`: with the best state, as
  /// TrainingState::has_best says.
  [[nodiscard]] std::vector<NamedArray<T>> arrays(bool has_best);
  /// Goes to a state whose arrays have been filled in. Throws UserError where it is of another model.
  void restore(const TrainingState& state);
  /// Why there is nothing left to do; nullopt where there is.
  [[nodiscard]] std::optional<StopReason> over() const;

  [[nodiscard]] const Tape<T>& tape() const { return tape_; }

 private:
  /// A step whose losses a device still owes.
  struct Owed {
    Losses losses;
    double weight = 0;
    Index step = 0, batch = 0;  // now_'s before it
    bool ahead = false;         // its losses are this rank's
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
  std::unique_ptr<OpCheck<T>> check_;  // null: nobody looks
  Step<T> step_;
  EpochUpdates<T>* updates_ = nullptr;  // null: steps are synchronous
  std::deque<Owed> owed_;  // by the last steps; kept for those to come, which go to the same places
  std::size_t owing_ = 0;  // of them
  std::vector<Losses*> local_;
  TrainingState now_;  // but schedule, fused_scale and parameters, which their owners keep
  std::vector<Buffer<T>> best_;
  std::vector<Buffer<Bf16>> best_bf16_;
  StepSeconds epoch_seconds_;
  Traffic epoch_sent_;
  Moved epoch_moved_;
  bool follows_ = true;  // the epoch under way was begun by this run, after the one before or as the first
  double seconds_before_ = 0;  // of the runs before this one
  Stopwatch begin_;
};

}  // namespace rossby
