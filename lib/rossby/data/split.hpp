#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/data/settings.hpp"

namespace rossby {

/// The use of a time step.
enum class Role : std::uint8_t { unused, train, validation, test };

/// Time steps [first, last).
struct StepRange {
  Index first = 0;
  Index last = 0;
  [[nodiscard]] Index size() const { return last - first; }
  [[nodiscard]] bool empty() const { return last <= first; }
  [[nodiscard]] bool contains(Index step) const { return first <= step && step < last; }
  friend bool operator==(const StepRange&, const StepRange&) = default;
};

/// Maps a date to the first step that is not before it (`steps` if all are). Throws UserError if the text is
/// not a date in the series' calendar.
using DateToStep = std::function<Index(std::string_view)>;

/// The role of every time step. Without folds: training, validation and test part in chronological order.
/// With folds, block `fold` of `folds` consecutive near-equal blocks of the training part is the validation
/// part, and the other blocks stay training (blocked cross-validation: Bergmeir and Benítez, Information
/// Sciences 191, 2012). Forward folds train on the steps before block fold + 1 of folds + 1. `gap` steps on
/// either side of the held-out block are unused.
struct Split {
  Index steps = 0;
  std::vector<Role> role;  // by step
  StepRange train;         // smallest range with every training step; includes a held-out fold
  StepRange validation;    // may be empty
  StepRange test;          // may be empty
  /// Steps before a gap of the time axis, ascending (time_breaks), for models that know time. Empty: only
  /// step numbers count.
  std::vector<Index> breaks = {};

  /// True if step t directly follows the previous one in time.
  [[nodiscard]] bool follows(Index t) const {
    return t > 0 && !std::binary_search(breaks.begin(), breaks.end(), t - 1);
  }
  [[nodiscard]] bool is_training(Index step) const {
    return step >= 0 && step < steps && role[static_cast<std::size_t>(step)] == Role::train;
  }

  /// True if any of the `horizons` steps after an origin is a training step.
  [[nodiscard]] bool reaches_training(Index origin, Index horizons) const;

  /// Training steps, ascending.
  [[nodiscard]] std::vector<Index> training_steps() const;

  /// Every step t with t−lags, …, t all in training and without a break, ascending. lags = 1: the pairs (t−1,
  /// t).
  [[nodiscard]] std::vector<Index> training_pairs(Index lags = 1) const;

  /// Forecast origins whose targets o+1, …, o+horizons are all in the part (validation or test). An origin is
  /// the last known step. The first origin is the last step before the part, or the part's first step if the
  /// part begins the series. Empty if the part is shorter than `horizons`.
  [[nodiscard]] std::vector<Index> origins(Role part, Index horizons) const;

  /// Test origins first, …, last for evaluate.first_origin and evaluate.last_origin. −1 means the first or
  /// last of origins(test, horizons). Targets must be in the data. Throws UserError if there is no such
  /// origin.
  [[nodiscard]] std::vector<Index> test_origins(Index horizons, Index first = -1, Index last = -1) const;
};

/// The split whose validation part decides settings: the same split, or, without a validation part, one that
/// uses the last fifth of the training part.
[[nodiscard]] Split deciding_split(const Split& split);

/// Counts of steps that may be meant as years, because the series has these years: "split.train = 1975".
[[nodiscard]] std::vector<std::string> years_as_counts(const SplitSettings& spec, Index steps,
                                                       const DateToStep& date_to_step);

/// Builds the split of a series of `steps` steps. Throws UserError, one line with key and numbers, if it is
/// impossible: text that is no count, share or date; parts with more steps than the series; a part that ends
/// before it begins; no training pair; a missing or empty fold. Without `date_to_step`, dates are an error.
[[nodiscard]] Split make_split(Index steps, const SplitSettings& spec, const DateToStep& date_to_step = {});

}  // namespace rossby
