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
  double pace = 1;   // how far it trains on a rung, relative to the dearest candidate

  /// Returns the cost of training from `from` to `to` steps in one start.
  [[nodiscard]] double part(Index from, Index to) const {
    return to <= from ? 0 : start + step * static_cast<double>(to - from) + (to < steps ? rung : 0);
  }
  [[nodiscard]] double complete() const { return part(0, steps); }
};

/// Returns the seconds of a step from the times at which steps began; `all` if there are fewer than two. The
/// shortest step counts, because other programs only make steps longer. The first one allocates memory.
[[nodiscard]] double undisturbed_step(std::span<const double> begins, double all);

/// Sets the paces so that a rung costs the same for every candidate: a cheap one trains for a larger share of
/// its complete training.
void set_paces(std::span<CandidateCost> costs);

/// A rung of successive halving (Jamieson, Talwalkar, "Non-stochastic best arm identification and
/// hyperparameter optimization", AISTATS 2016): how many candidates reach it, and how far each trains there.
struct Rung {
  double share = 0;      // of the steps of the complete training of the dearest candidate
  Index candidates = 0;  // upper limit
  Index folds = 1;       // the first ones, which candidates train on
};

/// Returns the steps of a candidate on a rung: at least `least`, no more than its complete training.
[[nodiscard]] Index rung_steps(const Rung& rung, const CandidateCost& cost, Index least);

/// Returns the cost of a rung for a candidate that was trained for so many steps on each fold.
[[nodiscard]] double rung_cost(const Rung& rung, const CandidateCost& cost, Index least,
                               std::span<const Index> reached);

/// Plans rungs of n, n/2, n/4, … candidates down to two, each trained twice as far as on the rung before. The
/// last rung trains on all folds, the others on the first one. The first share is the largest whose rungs
/// cost no more than `budget`, if candidates of every cost are equally likely to survive. With enough budget,
/// one rung trains all of them to the end. Costs are those of one fold; `budget` and costs are in
/// rank-seconds. Throws UserError if the budget does not suffice for `least` steps of each candidate.
[[nodiscard]] std::vector<Rung> plan_rungs(std::span<const CandidateCost> costs, Index folds, double budget,
                                           Index least);

/// Returns the candidates that go on to a rung of `candidates`. `ranking` holds indices into `costs`, best
/// first; `costs` are those of the rung. First come the best whose cost fits in the remaining budget, up to
/// the number of candidates. Then come the others, best first, that also fit in `share` of it, because some
/// cost almost nothing. Candidates that only their cost excludes are appended to `too_dear`.
[[nodiscard]] std::vector<Index> promote(std::span<const Index> ranking, std::span<const double> costs,
                                         Index candidates, double left, double share,
                                         std::vector<Index>& too_dear);

}  // namespace rossby
