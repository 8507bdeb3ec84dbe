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

// What a checkpoint holds beside arrays: plain numbers, the same on every rank and at every rank count.
// Random numbers and the order of batches are functions of (seed, epoch, step): there is nothing to keep of
// them.

/// AdamConstants in the order of their declaration; double holds floats exactly.
using UpdateConstants = std::array<double, 10>;

/// What an UpdateLedger knows of a table's rows. Checkpoints keep late updates late: making them early would
/// change bits where beta1 = 0 and there is no decay (beta2^a · beta2^b is not beta2^(a+b) in floating
/// point), and would cost a pass over the table.
struct TableBooks {
  bool closed = false;
  double beta2 = 0;
  Index count = 0;
  Index settled = 0;
  std::vector<std::pair<Index, Index>> done;  // updates that rows have had: (updates, rows in a row)
  std::vector<UpdateConstants> history;       // of updates settled + 1, …, count; empty where closed
};

/// Adds a row that has had `updates` updates to TableBooks::done.
inline void add_run(std::vector<std::pair<Index, Index>>& done, Index updates) {
  if (!done.empty() && done.back().first == updates)
    ++done.back().second;
  else
    done.emplace_back(updates, 1);
}

/// The late updates of a parameter that is updated as a whole.
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

/// Of Schedule.
struct ScheduleState {
  Index falls = 0;  // plateau: times the rate has fallen
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

/// How often each value came.
using Counts = std::map<Index, Index>;

/// Numbers by their first moments, and what they lie between.
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

/// What asynchronous updates were like. The staleness of a gradient is the number of updates that were
/// published between reading the weights that it is of and being summed.
struct UpdateCounts {
  Counts windows;          // of each update
  Counts staleness;        // of each sub-batch that an update took
  Moments targets;         // observed ones of each update
  Index dropped = 0;       // sub-batches beyond train.max_staleness
  Moments update_seconds;  // from summing gradients to publishing weights, on this rank
  Moments worker_seconds;  // of a sub-batch, on this rank
  // Of update_seconds: until all ranks have joined and counts are summed, and the sum of the gradients. The
  // rest is the optimiser and the publication.
  Moments join_seconds, sum_seconds;

  [[nodiscard]] bool any() const { return targets.count > 0 || dropped > 0; }
  UpdateCounts& operator+=(const UpdateCounts& other);
};

/// Mean and standard deviation of values that came so often.
[[nodiscard]] Moments moments_of(const Counts& counts);

/// Where a training is, between two steps.
struct TrainingState {
  Index epoch = 0;           // epochs done
  Index batch = 0;           // batches done of the epoch under way
  Index steps = 0;           // optimiser steps
  Index best_epoch = -1;     // −1: none yet
  bool has_best = false;     // the best state is among the arrays
  Index rollbacks = 0;       // returns to an earlier checkpoint after a loss that was not finite
  double seconds = 0;        // of wall-clock time
  double epoch_seconds = 0;  // of the steps of the epoch under way
  StepSeconds step_seconds;  // what they went into on this rank; in a checkpoint the mean of all ranks
  double node_steps = 0;     // of the same
  double fused_scale = 1;    // clipping factor of the last step with fused parameters
  std::vector<TermSum> terms;
  ScheduleState schedule;
  std::vector<ParameterBooks> parameters;
  /// Asynchronous updates: sub-batches done of the epoch under way, by each time group; `batch` is their mean
  /// then. Empty: synchronous ones.
  std::vector<Index> group_batches;
  UpdateCounts updates;  // of the epoch under way
};

[[nodiscard]] nlohmann::ordered_json to_json(const TrainingState& state);

/// Throws UserError naming the member that is missing, of another type or out of range. Sizes are checked
/// against the model by Trainer::restore.
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
