#pragma once

#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/index.hpp"
#include "rossby/kernels/adam_constants.hpp"
#include "rossby/train/step_seconds.hpp"

namespace rossby {

// The content of a checkpoint beside arrays: plain numbers, the same on every rank and at every rank count.
// Random numbers and the order of batches are functions of (seed, epoch, step), so a checkpoint does not
// store them.

/// AdamConstants in the order of their declaration; double holds floats exactly.
using UpdateConstants = std::array<double, 10>;

/// State of an UpdateLedger for a table's rows. Checkpoints keep late updates late: early updates would
/// change bits if beta1 = 0 and there is no decay (beta2^a · beta2^b is not beta2^(a+b) in floating point),
/// and would cost a pass over the table.
struct TableBooks {
  bool closed = false;
  double beta2 = 0;
  Index count = 0;
  Index settled = 0;
  std::vector<std::pair<Index, Index>> done;  // updates of rows: (updates, consecutive rows)
  std::vector<UpdateConstants> history;       // of updates settled + 1, …, count; empty if closed
};

/// Adds a row that has had `updates` updates to TableBooks::done.
inline void add_run(std::vector<std::pair<Index, Index>>& done, Index updates) {
  if (!done.empty() && done.back().first == updates)
    ++done.back().second;
  else
    done.emplace_back(updates, 1);
}

/// Late updates of a parameter that is updated as a whole.
struct OverdueBooks {
  double beta2 = 1;
  Index missed = 0;
  std::vector<UpdateConstants> steps;
};

/// The optimiser's numbers for one trained parameter.
struct ParameterBooks {
  std::string name;
  bool live = false;
  Index count = 0;
  bool by_rows = false;
  TableBooks table;  // by_rows
  OverdueBooks overdue;
};

/// State of a Schedule.
struct ScheduleState {
  Index falls = 0;  // plateau: how often the rate has fallen
  double best = std::numeric_limits<double>::infinity();
  Index since_best = 0;
  Index bad = 0;
};

/// Weighted sum of one loss term over the batches of an epoch.
struct TermSum {
  std::string name;
  double value = 0;
  double weight = 0;
};

/// How often each value occurred.
using Counts = std::map<Index, Index>;

/// Count, first moments and range of numbers.
struct Moments {
  Index count = 0;
  double sum = 0;
  double squares = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void add(double value) {
    ++count;
    sum += value;
    squares += value * value;
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  Moments& operator+=(const Moments& other) {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
    return *this;
  }
  [[nodiscard]] double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  [[nodiscard]] double deviation() const;
};

/// Statistics of asynchronous updates. The staleness of a gradient is the number of updates that were
/// published between reading its weights and summing it.
struct UpdateCounts {
  Counts windows;          // per update
  Counts staleness;        // per sub-batch that an update took
  Moments targets;         // observed targets per update
  Index dropped = 0;       // sub-batches beyond train.max_staleness
  Moments update_seconds;  // from summing gradients to publishing weights, on this rank
  Moments worker_seconds;  // per sub-batch, on this rank
  // Parts of update_seconds: until all ranks have joined and counts are summed, and the sum of the gradients.
  // The rest is the optimiser and the publication.
  Moments join_seconds, sum_seconds;

  [[nodiscard]] bool any() const { return targets.count > 0 || dropped > 0; }
  UpdateCounts& operator+=(const UpdateCounts& other);
};

/// Mean and standard deviation of values with these counts.
[[nodiscard]] Moments moments_of(const Counts& counts);

/// Progress of a training, between two steps.
struct TrainingState {
  Index epoch = 0;           // epochs done
  Index batch = 0;           // batches done of the epoch under way
  Index steps = 0;           // optimiser steps
  Index best_epoch = -1;     // −1: none yet
  bool has_best = false;     // the best state is among the arrays
  Index rollbacks = 0;       // returns to an earlier checkpoint after a loss that was not finite
  double seconds = 0;        // of wall-clock time
  double epoch_seconds = 0;  // of the steps of the epoch under way
  StepSeconds step_seconds;  // parts of them on this rank; in a checkpoint the mean of all ranks
  double node_steps = 0;     // of the epoch under way
  double fused_scale = 1;    // clipping factor of the last step with fused parameters
  std::vector<TermSum> terms;
  ScheduleState schedule;
  std::vector<ParameterBooks> parameters;
  /// Sub-batches that each time group has done in the epoch under way, with asynchronous updates; `batch` is
  /// then their mean. Empty for synchronous updates.
  std::vector<Index> group_batches;
  UpdateCounts updates;  // of the epoch under way
};

[[nodiscard]] nlohmann::ordered_json to_json(const TrainingState& state);

/// Throws UserError that names a member that is missing, of the wrong type or out of range. Trainer::restore
/// checks sizes against the model.
[[nodiscard]] TrainingState training_state(const nlohmann::ordered_json& json);

template <class T>
[[nodiscard]] UpdateConstants pack(const AdamConstants<T>& c) {
  return {c.beta1,     c.rest1,   c.beta2, c.rest2, c.root_correction,
          c.step_size, c.epsilon, c.scale, c.decay, c.keep};
}

template <class T>
[[nodiscard]] AdamConstants<T> unpack(const UpdateConstants& p) {
  const auto at = [&](std::size_t i) { return static_cast<T>(p[i]); };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9)};
}

}  // namespace rossby
