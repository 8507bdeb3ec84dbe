#include "rossby/train/conformal.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr double no_residual = std::numeric_limits<double>::quiet_NaN();

/// Maps a float to an integer with the same order.
std::uint32_t key_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}
float value_of(std::uint32_t key) {
  return std::bit_cast<float>(key & 0x80000000U ? key & 0x7fffffffU : ~key);
}

/// Returns the values of these ranks (1, 2, …) among the `sorted` values of all processes. Uses bisection.
std::vector<double> values_of_ranks(const std::vector<float>& sorted, const std::vector<double>& ranks,
                                    Reducer& reducer) {
  std::vector<std::uint32_t> low(ranks.size(), 0),
      high(ranks.size(), std::numeric_limits<std::uint32_t>::max());
  std::vector<double> below(ranks.size());
  for (int step = 0; step < 32; ++step) {
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const std::uint32_t middle = low[k] + (high[k] - low[k]) / 2;
      below[k] =
          static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), middle,
                                               [](std::uint32_t key, float x) { return key < key_of(x); }) -
                              sorted.begin());
    }
    reducer.sum(std::span<double>(below));
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const std::uint32_t middle = low[k] + (high[k] - low[k]) / 2;
      if (below[k] >= ranks[k])
        high[k] = middle;
      else
        low[k] = middle + 1;
    }
  }
  std::vector<double> values;
  for (const std::uint32_t key : high) values.push_back(static_cast<double>(value_of(key)));
  return values;
}

/// Returns the stored offset for τ, a multiple of 0.005.
double offset_at(std::span<const double> offsets, double tau) {
  return offsets[static_cast<std::size_t>(std::lround(tau * (ConformalQuantiles::levels + 1))) - 1];
}

/// Is a scaled residual in the central interval from τ to 1 − τ?
bool within(std::span<const double> offsets, double tau, double residual) {
  return residual >= offset_at(offsets, tau) && residual <= offset_at(offsets, 1 - tau);
}

}  // namespace

void ConformalQuantiles::fit(const Residuals& residuals, Index rows, Index origins, Reducer& reducer) {
  const Index m = features;
  const auto lead = [&](Index h, Index f) { return static_cast<std::size_t>((h - 1) * m + f); };
  const auto of_all = [&](const auto& visit) {
    for (Index h = 1; h <= horizons; ++h)
      for (Index o = 0; o < origins; ++o) {
        const float* r = residuals(h, o);
        for (Index column = 0; column < rows * m; ++column)
          if (std::isfinite(r[column])) visit(h, column, static_cast<double>(r[column]));
      }
  };
  std::vector<double> sums(static_cast<std::size_t>(2 * horizons * m));  // squares and counts of leads
  of_all([&](Index h, Index column, double r) {
    sums[2 * lead(h, column % m)] += r * r;
    sums[2 * lead(h, column % m) + 1] += 1;
  });
  reducer.ordered_sum(sums);
  // If a node has few residuals, shrink the log of its variance towards that of all nodes, which is 0.
  constexpr double few = 10;
  std::vector<double> squares(static_cast<std::size_t>(rows * m)), number(squares.size());
  of_all([&](Index h, Index column, double r) {
    const double variance = sums[2 * lead(h, column % m)] / sums[2 * lead(h, column % m) + 1];
    squares[static_cast<std::size_t>(column)] += variance > 0 ? r * r / variance : 1;
    number[static_cast<std::size_t>(column)] += 1;
  });
  spread.resize(squares.size());
  const auto leads = static_cast<double>(horizons);  // horizons of one origin, whose residuals are alike
  constexpr double least = 1e-6;                     // for a node whose forecasts are almost exact
  for (std::size_t k = 0; k < spread.size(); ++k) {
    const double n = number[k] / leads;
    spread[k] = n > 0 ? std::pow(std::max(least, squares[k] / number[k]), 0.5 * n / (n + few)) : 1;
  }
  offsets.clear();
  std::vector<float> scaled;
  for (Index h = 1; h <= horizons; ++h)
    for (Index f = 0; f < m; ++f) {
      scaled.clear();
      for (Index o = 0; o < origins; ++o)
        for (Index i = 0; i < rows; ++i)
          if (const float r = residuals(h, o)[i * m + f]; std::isfinite(r))
            scaled.push_back(r / static_cast<float>(spread[static_cast<std::size_t>(i * m + f)]));
      std::sort(scaled.begin(), scaled.end());
      const double n = sums[2 * lead(h, f) + 1];
      if (n == 0) {
        offsets.insert(offsets.end(), levels, no_residual);
        continue;
      }
      std::vector<double> ranks;
      for (Index k = 0; k < levels; ++k) {
        const double rank = (n + 1) * level(k);
        ranks.push_back(std::clamp(k < levels / 2 ? std::floor(rank) : std::ceil(rank), 1.0, n));
      }
      const std::vector<double> values = values_of_ranks(scaled, ranks, reducer);
      offsets.insert(offsets.end(), values.begin(), values.end());
    }
}

double ConformalQuantiles::about(double forecast, Index horizon, Index row, Index feature, double tau,
                                 double scale) const {
  const std::span<const double> of = at(horizon, feature);
  const double place = std::clamp(tau * (levels + 1) - 1, 0.0, static_cast<double>(levels - 1));
  const auto below = static_cast<std::size_t>(place + 1e-9);
  const double part = std::max(0.0, place - static_cast<double>(below));
  const double offset = part < 1e-9 ? of[below] : (1 - part) * of[below] + part * of[below + 1];
  const Index column = row * features + feature;
  return transform.inverse(transform.forward(forecast + center(column)) +
                           scale * spread[static_cast<std::size_t>(column)] * offset) -
         center(column);
}

std::vector<Coverage> left_out_coverage(const ConformalQuantiles& like,
                                        const ConformalQuantiles::Residuals& residuals, Index rows,
                                        Index origins, Reducer& reducer) {
  const Index columns = rows * like.features;
  double all = static_cast<double>(columns * origins * like.horizons);
  reducer.sum(std::span(&all, 1));
  if (origins < least_left_out_origins || all > most_left_out_residuals) return {};
  std::vector<double> sums(static_cast<std::size_t>(3 * like.horizons));  // number, in 50 %, in 90 %
  for (Index block = 0; block < left_out_blocks; ++block) {
    const Index first = block * origins / left_out_blocks, end = (block + 1) * origins / left_out_blocks;
    ConformalQuantiles others = like;
    others.fit([&](Index h, Index o) { return residuals(h, o < first ? o : o + end - first); }, rows,
               origins - (end - first), reducer);
    for (Index h = 1; h <= like.horizons; ++h)
      for (Index o = first; o < end; ++o)
        for (Index k = 0; k < columns; ++k) {
          const double place =
              static_cast<double>(residuals(h, o)[k]) / others.spread[static_cast<std::size_t>(k)];
          const std::span<const double> offsets = others.at(h, k % like.features);
          if (!std::isfinite(place) || std::isnan(offsets.front())) continue;
          double* of = &sums[static_cast<std::size_t>(3 * (h - 1))];
          of[0] += 1;
          of[1] += within(offsets, 0.25, place);
          of[2] += within(offsets, 0.05, place);
        }
  }
  reducer.sum(std::span<double>(sums));
  std::vector<Coverage> found;
  for (std::size_t k = 0; k < sums.size(); k += 3)
    found.push_back({sums[k + 1] / sums[k], sums[k + 2] / sums[k]});
  return found;
}

IntervalErrors::IntervalErrors(const ConformalQuantiles& quantiles, Index horizons,
                               std::vector<double> weights)
    : quantiles_(&quantiles), weights_(std::move(weights)), sums_(static_cast<std::size_t>(horizons)) {}

void IntervalErrors::add(IntervalScores& sum, double weight, double forecast, double observed, Index horizon,
                         Index row, Index feature) const {
  const ConformalQuantiles& q = *quantiles_;
  const Index column = row * q.features + feature;
  const std::span<const double> offsets = q.at(horizon, feature);
  if (std::isnan(offsets.front())) return;
  const double spread = q.spread[static_cast<std::size_t>(column)];
  const double place = q.residual(forecast, observed, column) / spread;
  const auto at = [&](double tau) { return offset_at(offsets, tau); };
  sum.weight += weight;
  sum.inside_50 += weight * within(offsets, 0.25, place);
  sum.inside_90 += weight * within(offsets, 0.05, place);
  // If several offsets equal the observation, use the middle of their ranks.
  const auto [first, last] = std::equal_range(offsets.begin(), offsets.end(), place);
  const double probability =
      0.5 * static_cast<double>((first - offsets.begin()) + (last - offsets.begin())) / (q.levels + 1);
  sum.pit[static_cast<std::size_t>(
      std::min<double>(IntervalScores::bins - 1, probability * IntervalScores::bins))] += weight;
  const double base = q.transform.forward(forecast + q.center(column));
  const auto value = [&](double offset) {
    return q.transform.inverse(base + spread * offset) - q.center(column);
  };
  sum.width_50 += weight * (value(at(0.75)) - value(at(0.25)));
  sum.width_90 += weight * (value(at(0.95)) - value(at(0.05)));
  double loss = 0;
  for (Index k = 0; k < q.levels; ++k) {
    const double error = observed - value(offsets[static_cast<std::size_t>(k)]), tau = q.level(k);
    loss += error > 0 ? tau * error : (tau - 1) * error;
  }
  sum.crps += weight * 2 * loss / q.levels;
}

void IntervalErrors::add(const ScoredValues& values) {
  const Index columns = std::ssize(values.steps);
  IntervalScores& sum = sums_[static_cast<std::size_t>(values.horizon - 1)];
  for (Index i = 0; i < values.rows; ++i) {
    const Index row = values.first_row + i;
    const double weight = weights_.empty() ? 1 : weights_[static_cast<std::size_t>(row)];
    for (Index b = 0; b < columns; ++b)
      for (Index f = 0; f < values.features; ++f) {
        const Index at = (i * columns + b) * values.features + f;
        if (!std::isnan(values.observed[at]))
          add(sum, weight, values.forecast[at], values.observed[at], values.horizon, row, f);
      }
  }
}

std::vector<IntervalScores> reduce_scores(const std::vector<IntervalScores>& sums, Reducer& reducer) {
  std::vector<double> all;
  for (const IntervalScores& s : sums) {
    all.insert(all.end(), {s.weight, s.inside_50, s.inside_90, s.width_50, s.width_90, s.crps, s.variance});
    all.insert(all.end(), s.pit.begin(), s.pit.end());
  }
  reducer.sum(std::span<double>(all));
  std::vector<IntervalScores> scores;
  for (const double* at = all.data(); std::ssize(scores) < std::ssize(sums);) {
    const double weight = at[0];
    IntervalScores s{weight, at[1] / weight, at[2] / weight, at[3] / weight, at[4] / weight, at[5] / weight,
                     {},     at[6] / weight};
    for (std::size_t b = 0; b < s.pit.size(); ++b) s.pit[b] = at[7 + b] / weight;
    at += 7 + IntervalScores::bins;
    scores.push_back(s);
  }
  return scores;
}

}  // namespace rossby
