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

/// What a time step is for.
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

/// A date → the first step that is not before it (`steps` where all are). Throws UserError where it is no
/// date of the series' calendar.
using DateToStep = std::function<Index(std::string_view)>;

/// The role of every time step: training, validation and test part in chronological order; or, with folds,
/// block `fold` of `folds` consecutive near-equal blocks of the training part is the validation part and the
/// other blocks stay training (blocked cross-validation: Bergmeir and Benítez, Information Sciences 191,
/// 2012). Forward folds train on the steps before block fold + 1 of folds + 1. `gap` steps on either side of
/// the held-out block are unused.
struct Split {
  Index steps = 0;
  std::vector<Role> role;  // of each step
  StepRange train;         // smallest range with every training step; holds the fold that is held out
  StepRange validation;    // may be empty
  StepRange test;          // may be empty
  /// Steps behind which the time axis has a gap, ascending (time_breaks), for models that know time; empty:
  /// steps are counted.
  std::vector<Index> breaks = {};

  /// Whether step t comes one step of time after the one before it.
  [[nodiscard]] bool follows(Index t) const {
    return t > 0 && !std::binary_search(breaks.begin(), breaks.end(), t - 1);
  }
  [[nodiscard]] bool is_training(Index step) const {
    return step >= 0 && step < steps && role[static_cast<std::size_t>(step)] == Role::train;
  }

  /// Whether any of the `horizons` steps behind an origin is one.
  [[nodiscard]] bool reaches_training(Index origin, Index horizons) const;

  /// Training steps, ascending.
  [[nodiscard]] std::vector<Index> training_steps() const;

  /// Every step t for which t−lags, …, t are all training steps without a break, ascending; lags = 1: the
  /// pairs (t−1, t).
  [[nodiscard]] std::vector<Index> training_pairs(Index lags = 1) const;

  /// Forecast origins whose targets o+1, …, o+horizons all lie in the part (validation or test). An origin is
  /// the last step that is known; the first one is the last step before the part, or the part's first step
  /// where the part starts the series. Empty where the part is shorter than `horizons`.
  [[nodiscard]] std::vector<Index> origins(Role part, Index horizons) const;

  /// Test origins first, …, last for evaluate.first_origin and evaluate.last_origin; −1 stands for the first
  /// and last of origins(test, horizons). Targets must lie in the data. Throws UserError where there is no
  /// such origin.
  [[nodiscard]] std::vector<Index> test_origins(Index horizons, Index first = -1, Index last = -1) const;
};

/// The split by whose validation part settings are chosen: the same one, or without a validation part one
/// that takes the last fifth of the training part for it.
[[nodiscard]] Split deciding_split(const Split& split);

/// Counts of steps that may have been meant as years, since the series has them: "split.train = 1975".
[[nodiscard]] std::vector<std::string> years_as_counts(const SplitSettings& spec, Index steps,
                                                       const DateToStep& date_to_step);

/// Builds the split of a series of `steps` steps. Throws UserError, one line with key and numbers, where it
/// is impossible: text that is no count, share or date, parts that ask for more steps than there are, a part
/// that ends before it begins, no training pair, a fold that is not there or empty. `date_to_step` may be
/// empty: dates are then an error.
[[nodiscard]] Split make_split(Index steps, const SplitSettings& spec, const DateToStep& date_to_step = {});

}  // namespace rossby
