#include "rossby/train/dressing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace rossby {
namespace {

constexpr Index mixture_levels = ConformalQuantiles::levels;

/// Calls visit(row, feature, column, observed) for all observed values.
template <class Visit>
void of_observed(const MemberValues& values, Index features, const Visit& visit) {
  for (Index column = 0; column < values.rows * features; ++column)
    if (!std::isnan(values.observed[column]))
      visit(column / features, column % features, column, static_cast<double>(values.observed[column]));
}

std::size_t of_lead(const ConformalQuantiles& quantiles, Index horizon, Index feature) {
  return static_cast<std::size_t>((horizon - 1) * quantiles.features + feature);
}

}  // namespace

DressingFit::DressingFit(const ConformalQuantiles& quantiles)
    : quantiles_(&quantiles), sums_(static_cast<std::size_t>(2 * quantiles.horizons * quantiles.features)) {}

void DressingFit::add(const MemberValues& values) {
  const ConformalQuantiles& q = *quantiles_;
  of_observed(values, q.features, [&](Index, Index feature, Index column, double observed) {
    const double spread = q.spread[static_cast<std::size_t>(column)],
                 average = static_cast<double>(values.average[column]);
    double apart = 0;
    for (std::size_t k = 0; k < values.forecasts.size(); ++k) {
      const double off = q.residual(average, static_cast<double>(values.forecasts[k][column]), column);
      apart += values.weights[k] * off * off;
    }
    const double error = q.residual(average, observed, column);
    if (!std::isfinite(apart)) return;  // outside the range of the transform
    double* sum = sums_.data() + 2 * of_lead(q, values.horizon, feature);
    sum[0] += apart / (spread * spread);
    sum[1] += error * error / (spread * spread);
  });
}

std::vector<double> DressingFit::reduce(Reducer& reducer) const {
  std::vector<double> sums = sums_, factors;
  reducer.ordered_sum(sums);
  for (std::size_t k = 0; k < sums.size(); k += 2) {
    const double left = 1 - sums[k] / sums[k + 1];
    factors.push_back(left > 0 ? std::sqrt(left) : 0);
  }
  return factors;
}

void mix_quantiles(std::span<const double> members, std::span<const double> weights,
                   std::span<const double> offsets, std::span<double> quantiles) {
  std::vector<std::size_t> next(members.size(), 0);  // position in each member's ascending quantiles
  double reached = 0, value = 0;
  constexpr double rounding = 1e-9;
  std::size_t level = 0;
  for (std::size_t merged = 0; merged < members.size() * offsets.size(); ++merged) {
    std::size_t least = members.size();
    for (std::size_t k = 0; k < members.size(); ++k)
      if (next[k] < offsets.size())
        if (const double head = members[k] + offsets[next[k]]; least == members.size() || head < value) {
          least = k;
          value = head;
        }
    ++next[least];
    reached += weights[least] / (mixture_levels + 1);
    while (level < quantiles.size() &&
           ConformalQuantiles::level(static_cast<Index>(level)) <= reached + rounding)
      quantiles[level++] = value;
  }
  std::fill(quantiles.begin() + static_cast<std::ptrdiff_t>(level), quantiles.end(), value);  // of rounding
}

Realization realization_of(Index number, Index count, std::span<const double> weights) {
  const double place = (static_cast<double>(number) + 0.5) / static_cast<double>(count);
  constexpr double golden = 0.6180339887498949;
  Realization found;
  found.quantile = std::fmod((static_cast<double>(number) + 0.5) * golden, 1.0);
  double before = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] > 0) found.member = static_cast<Index>(k);
    before += weights[k];
    if (weights[k] > 0 && place <= before) break;
  }
  return found;
}

DressedErrors::DressedErrors(const ConformalQuantiles& quantiles, Index horizons, std::vector<double> weights)
    : quantiles_(&quantiles),
      weights_(std::move(weights)),
      sums_(static_cast<std::size_t>(horizons)),
      offsets_(mixture_levels),
      mixed_(mixture_levels) {}

/// Adds members_, which are in the space of the transform.
void DressedErrors::add(IntervalScores& sum, double weight, double observed, Index horizon, Index row,
                        Index feature, std::span<const double> weights) {
  const ConformalQuantiles& q = *quantiles_;
  const Index column = row * q.features + feature;
  const std::span<const double> offsets = q.at(horizon, feature);
  const double scale = q.dressing[of_lead(q, horizon, feature)] * q.spread[static_cast<std::size_t>(column)];
  for (std::size_t k = 0; k < offsets_.size(); ++k) offsets_[k] = scale * offsets[k];
  mix_quantiles(members_, weights, offsets_, mixed_);
  const double place = q.transform.forward(observed + q.center(column));
  const auto [first, last] = std::equal_range(mixed_.begin(), mixed_.end(), place);
  const double probability =
      0.5 * static_cast<double>((first - mixed_.begin()) + (last - mixed_.begin())) / (mixture_levels + 1);
  sum.pit[static_cast<std::size_t>(
      std::min<double>(IntervalScores::bins - 1, probability * IntervalScores::bins))] += weight;
  for (double& value : mixed_) value = q.transform.inverse(value) - q.center(column);
  const auto at = [&](double tau) {
    return mixed_[static_cast<std::size_t>(std::lround(tau * (mixture_levels + 1))) - 1];
  };
  sum.inside_50 += weight * (observed >= at(0.25) && observed <= at(0.75));
  sum.inside_90 += weight * (observed >= at(0.05) && observed <= at(0.95));
  sum.width_50 += weight * (at(0.75) - at(0.25));
  sum.width_90 += weight * (at(0.95) - at(0.05));
  const double mean = std::accumulate(mixed_.begin(), mixed_.end(), 0.0) / mixture_levels;
  double loss = 0, variance = 0;
  for (std::size_t k = 0; k < mixed_.size(); ++k) {
    const double error = observed - mixed_[k], tau = ConformalQuantiles::level(static_cast<Index>(k));
    loss += error > 0 ? tau * error : (tau - 1) * error;
    variance += (mixed_[k] - mean) * (mixed_[k] - mean);
  }
  sum.crps += weight * 2 * loss / mixture_levels;
  sum.variance += weight * variance / mixture_levels;
}

void DressedErrors::add(const MemberValues& values) {
  const ConformalQuantiles& q = *quantiles_;
  IntervalScores& sum = sums_[static_cast<std::size_t>(values.horizon - 1)];
  of_observed(values, q.features, [&](Index row, Index feature, Index column, double observed) {
    if (std::isnan(q.at(values.horizon, feature).front())) return;
    const double weight = weights_.empty() ? 1 : weights_[static_cast<std::size_t>(row)];
    sum.weight += weight;
    members_.clear();
    for (const float* forecast : values.forecasts)
      members_.push_back(q.transform.forward(static_cast<double>(forecast[column]) + q.center(column)));
    if (std::all_of(members_.begin(), members_.end(), [](double x) { return std::isfinite(x); }))
      add(sum, weight, observed, values.horizon, row, feature, values.weights);
    else  // a diverged member
      sum.crps = std::numeric_limits<double>::quiet_NaN();
  });
}

}  // namespace rossby
