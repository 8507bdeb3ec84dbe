#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "rossby/train/schedule.hpp"
#include "rossby/train/step.hpp"

namespace rossby {

/// What a model gives the loop: its batches and its losses. Every rank calls the same functions in the same
/// order.
template <class T>
class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() = 0;
  [[nodiscard]] virtual Index batches() const = 0;
  virtual void start_epoch(Index epoch) = 0;
  /// Records the losses of batch `index` of the epoch; `step` counts optimiser steps from 0.
  virtual void record(Tape<T>& tape, Index index, Index step, Losses& losses) = 0;
  /// The batch recorded last: its weight in epoch means, and the (node, step) pairs it covered.
  [[nodiscard]] virtual double weight() const = 0;
  [[nodiscard]] virtual double node_steps() const = 0;
  /// Validation error (smaller is better), the same bits on every rank; NaN where there is no validation
  /// part.
  [[nodiscard]] virtual double validate() = 0;
};

struct TrainerOptions {
  Index epochs = 100;
  Index early_stop = 0;    // epochs without better; 0: never
  double max_seconds = 0;  // 0: no limit
  Index validate_every = 1;
  bool watch_validation = true;  // what schedule and early stopping look at; false: the training loss
  bool keep_best = true;         // restore the best state at the end
  double clip = 0;
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
  double epoch_seconds = 0;  // training steps only
  double total_seconds = 0;
  double batches_per_second = 0;
  double node_steps_per_second = 0;
};

enum class StopReason { epochs, early_stop, plateau, time, asked };
[[nodiscard]] std::string_view to_string(StopReason reason);

struct TrainingResult {
  StopReason reason = StopReason::epochs;
  Index epochs = 0;
  Index steps = 0;
  Index best_epoch = -1;
  double best_metric = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;
};

/// The training loop: epochs of steps, schedule, validation, early stopping, best state.
template <class T>
class Trainer {
 public:
  Trainer(const TrainerOptions& options, const ScheduleOptions& schedule, Task<T>& task,
          Optimiser<T>& optimiser, Reducer& reducer, const Exec& exec);

  /// Runs to the end. `observe` is called after every epoch on every rank; `vote_stop` (may be empty) is
  /// asked before every step whether this rank wants to stop.
  TrainingResult run(const std::function<void(const EpochReport&)>& observe,
                     const std::function<bool()>& vote_stop = {});

  [[nodiscard]] const Tape<T>& tape() const { return tape_; }

 private:
  bool run_epoch(Index epoch, EpochReport& report, const std::function<bool()>& vote_stop);
  void keep();
  void restore();
  [[nodiscard]] double elapsed() const;

  TrainerOptions options_;
  Schedule schedule_;
  Task<T>* task_;
  Optimiser<T>* optimiser_;
  Tape<T> tape_;
  Step<T> step_;
  Losses losses_;
  Index steps_ = 0;
  std::vector<std::vector<T>> best_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace rossby
