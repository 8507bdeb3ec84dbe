#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// What a candidate's training costs, in rank-seconds.
struct CandidateCost {
  Index steps = 0;   // optimiser steps of its complete training
  double step = 0;   // a step, with its share of the validations of the complete training
  double start = 0;  // what each start takes before its first step, and after its last; 0: not counted
  double rung = 0;   // what each rung takes beside its steps: a validation, a slow first step

  /// From `from` to `to` steps in one start.
  [[nodiscard]] double part(Index from, Index to) const {
    return to <= from ? 0 : start + step * static_cast<double>(to - from) + (to < steps ? rung : 0);
  }
  [[nodiscard]] double complete() const { return part(0, steps); }
};

/// A rung of successive halving (Jamieson, Talwalkar, "Non-stochastic best arm identification and
/// hyperparameter optimization", AISTATS 2016): candidates that reach it, and how far each trains there.
struct Rung {
  double share = 0;      // of the steps of the candidate's own complete training
  Index candidates = 0;  // at most
};

/// Steps of a candidate's rung: at least `least`, no more than its complete training.
[[nodiscard]] Index rung_steps(const Rung& rung, const CandidateCost& cost, Index least);

/// Rungs of n, n/2, n/4, … candidates down to two, each trained twice as far as on the rung before. The first
/// share is the largest whose rungs cost no more than `budget`, if candidates of every cost survive alike.
/// With enough budget all of them are trained to the end on one rung. Throws UserError if the budget does not
/// reach for `least` steps of each candidate. `budget` and costs in rank-seconds.
[[nodiscard]] std::vector<Rung> plan_rungs(std::span<const CandidateCost> costs, double budget, Index least);

/// Who goes on to a rung: of those in `ranking` (places in `costs`, best first, trained for `at` steps) the
/// first whose part fits in what is left of the budget, up to Rung::candidates of them; then those of the
/// others, best first, that fit in `share` of it as well, since some cost next to nothing. Those that would
/// have been among them but for their cost are appended to `too_dear`.
[[nodiscard]] std::vector<Index> promote(std::span<const Index> ranking, std::span<const Index> at,
                                         std::span<const CandidateCost> costs, const Rung& rung, Index least,
                                         double left, double share, std::vector<Index>& too_dear);

}  // namespace rossby
