#include "rossby/train/halving.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Returns the rungs if the first one trains for `share`.
std::vector<Rung> rungs_from(Index count, Index folds, double share) {
  std::vector<Rung> rungs{{std::min(share, 1.0), count}};
  while (rungs.back().share < 1 && rungs.back().candidates > 2)
    rungs.push_back({std::min(2 * rungs.back().share, 1.0), (rungs.back().candidates + 1) / 2});
  rungs.back().folds = folds;
  return rungs;
}

/// Returns the cost of the rungs if survivors cost as much as the average candidate.
double cost_of(const std::vector<Rung>& rungs, std::span<const CandidateCost> costs, Index least) {
  double sum = 0;
  for (const CandidateCost& cost : costs) {
    std::vector<Index> at(static_cast<std::size_t>(rungs.back().folds), 0);
    for (const Rung& rung : rungs) {
      sum += rung_cost(rung, cost, least, at) * static_cast<double>(rung.candidates) /
             static_cast<double>(costs.size());
      for (Index fold = 0; fold < rung.folds; ++fold) {
        Index& steps = at[static_cast<std::size_t>(fold)];
        steps = std::max(steps, rung_steps(rung, cost, least));
      }
    }
  }
  return sum;
}

}  // namespace

double undisturbed_step(std::span<const double> begins, double all) {
  if (begins.size() < 2) return all;
  double shortest = begins.back() - begins[begins.size() - 2];
  for (std::size_t k = 2; k < begins.size(); ++k) shortest = std::min(shortest, begins[k] - begins[k - 1]);
  return shortest;
}

void set_paces(std::span<CandidateCost> costs) {
  double dearest = 0;
  for (const CandidateCost& cost : costs) dearest = std::max(dearest, cost.complete());
  for (CandidateCost& cost : costs) cost.pace = cost.complete() > 0 ? dearest / cost.complete() : 1;
}

Index rung_steps(const Rung& rung, const CandidateCost& cost, Index least) {
  const double share = std::min(rung.share * cost.pace, 1.0);
  const auto steps = static_cast<Index>(std::floor(share * static_cast<double>(cost.steps)));
  return std::min(std::max(steps, least), cost.steps);
}

double rung_cost(const Rung& rung, const CandidateCost& cost, Index least, std::span<const Index> reached) {
  double sum = 0;
  const Index to = rung_steps(rung, cost, least);
  for (Index fold = 0; fold < rung.folds; ++fold)
    sum += cost.part(reached[static_cast<std::size_t>(fold)], to);
  return sum;
}

std::vector<Rung> plan_rungs(std::span<const CandidateCost> costs, Index folds, double budget, Index least) {
  const auto count = static_cast<Index>(costs.size());
  if (count == 0) return {};
  const std::vector<Rung> all = rungs_from(count, folds, 1);
  if (cost_of(all, costs, least) <= budget) return all;
  double first = 0;
  for (const CandidateCost& cost : costs) first += cost.part(0, std::min(least, cost.steps));
  if (first > budget)
    user_error(
        "--budget is too small: the first {} steps of {} candidate{} take {:.3g} rank-seconds, but the "
        "budget allows {:.3g}. Raise --budget, or name fewer candidates",
        least, count, count == 1 ? "" : "s", first, budget);
  double low = 0, high = 1;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = 0.5 * (low + high);
    (cost_of(rungs_from(count, folds, middle), costs, least) <= budget ? low : high) = middle;
  }
  return rungs_from(count, folds, low);
}

std::vector<Index> promote(std::span<const Index> ranking, std::span<const double> costs, Index candidates,
                           double left, double share, std::vector<Index>& too_dear) {
  std::vector<Index> promoted;
  for (const Index candidate : ranking) {
    const double cost = costs[static_cast<std::size_t>(candidate)];
    if (std::ssize(promoted) >= candidates && cost > share) continue;
    if (cost > left) {
      too_dear.push_back(candidate);
      continue;
    }
    left -= cost;
    share -= cost;
    promoted.push_back(candidate);
  }
  return promoted;
}

}  // namespace rossby
