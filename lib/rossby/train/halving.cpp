#include "rossby/train/halving.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Returns the rungs if the first one trains for `share`.
std::vector<Rung> rungs_from(Index count, double share) {
  std::vector<Rung> rungs{{std::min(share, 1.0), count}};
  while (rungs.back().share < 1 && rungs.back().candidates > 2)
    rungs.push_back({std::min(2 * rungs.back().share, 1.0), (rungs.back().candidates + 1) / 2});
  return rungs;
}

/// Returns the cost of the rungs if survivors cost as much as the average candidate.
double cost_of(const std::vector<Rung>& rungs, std::span<const CandidateCost> costs, Index least) {
  double sum = 0;
  for (const CandidateCost& cost : costs) {
    Index at = 0;
    for (const Rung& rung : rungs) {
      const Index to = rung_steps(rung, cost, least);
      sum += cost.part(at, to) * static_cast<double>(rung.candidates) / static_cast<double>(costs.size());
      at = std::max(at, to);
    }
  }
  return sum;
}

}  // namespace

Index rung_steps(const Rung& rung, const CandidateCost& cost, Index least) {
  const auto steps = static_cast<Index>(std::floor(rung.share * static_cast<double>(cost.steps)));
  return std::min(std::max(steps, least), cost.steps);
}

std::vector<Rung> plan_rungs(std::span<const CandidateCost> costs, double budget, Index least) {
  const auto count = static_cast<Index>(costs.size());
  if (count == 0) return {};
  const std::vector<Rung> all = rungs_from(count, 1);
  if (cost_of(all, costs, least) <= budget) return all;
  double first = 0;
  for (const CandidateCost& cost : costs) first += cost.part(0, std::min(least, cost.steps));
  if (first > budget)
    user_error(
        "--budget is too small: the first {} steps of {} candidate{} take {:.3g} rank-seconds, but it allows "
        "{:.3g}. Raise it, or name fewer candidates",
        least, count, count == 1 ? "" : "s", first, budget);
  double low = 0, high = 1;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = 0.5 * (low + high);
    (cost_of(rungs_from(count, middle), costs, least) <= budget ? low : high) = middle;
  }
  return rungs_from(count, low);
}

std::vector<Index> promote(std::span<const Index> ranking, std::span<const Index> at,
                           std::span<const CandidateCost> costs, const Rung& rung, Index least, double left,
                           double share, std::vector<Index>& too_dear) {
  std::vector<Index> promoted;
  for (const Index candidate : ranking) {
    const auto k = static_cast<std::size_t>(candidate);
    const double cost = costs[k].part(at[k], rung_steps(rung, costs[k], least));
    if (static_cast<Index>(promoted.size()) >= rung.candidates && cost > share) continue;
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
