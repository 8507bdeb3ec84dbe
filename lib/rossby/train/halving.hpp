#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// Cost of a candidate's training, in rank-seconds.
struct CandidateCost {
  Index steps = 0;   // optimiser steps of its complete training
  double step = 0;   // a step, with its share of the validations of the complete training
  double start = 0;  // each start, before its first and after its last step; 0: not counted
  double rung = 0;   // extra cost of each rung: a validation, a slow first step

  /// Returns the cost of training from `from` to `to` steps in one start.
  [[nodiscard]] double part(Index from, Index to) const {
    return to <= from ? 0 : start + step * static_cast<double>(to - from) + (to < steps ? rung : 0);
  }
  [[nodiscard]] double complete() const { return part(0, steps); }
};

/// A rung of successive halving (Jamieson, Talwalkar, "Non-stochastic best arm identification and
/// hyperparameter optimization", AISTATS 2016): how many candidates reach it, and how far each trains there.
struct Rung {
  double share = 0;      // of the steps of the candidate's own complete training
  Index candidates = 0;  // upper limit
};

/// Returns the steps of a candidate on a rung: at least `least`, no more than its complete training.
[[nodiscard]] Index rung_steps(const Rung& rung, const CandidateCost& cost, Index least);

/// Plans rungs of n, n/2, n/4, … candidates down to two, each trained twice as far as on the rung before. The
/// first share is the largest whose rungs cost no more than `budget`, if candidates of every cost are equally
/// likely to survive. With enough budget, one rung trains all of them to the end. `budget` and costs are in
/// rank-seconds. Throws UserError if the budget does not suffice for `least` steps of each candidate.
[[nodiscard]] std::vector<Rung> plan_rungs(std::span<const CandidateCost> costs, double budget, Index least);

/// Returns the candidates that go on to a rung. `ranking` holds indices into `costs`, best first; each
/// candidate was trained for `at` steps. First come the best whose part fits in the remaining budget, up to
/// Rung::candidates. Then come the others, best first, that also fit in `share` of it, because some cost
/// almost nothing. Candidates that only their cost excludes are appended to `too_dear`.
[[nodiscard]] std::vector<Index> promote(std::span<const Index> ranking, std::span<const Index> at,
                                         std::span<const CandidateCost> costs, const Rung& rung, Index least,
                                         double left, double share, std::vector<Index>& too_dear);

}  // namespace rossby
