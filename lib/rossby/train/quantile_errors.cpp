#include "rossby/train/quantile_errors.hpp"

#include <cmath>

namespace rossby {
namespace {

constexpr std::size_t sums_of_level = 5;

}  // namespace

double QuantileScores::crps(std::span<const double> levels) const {
  double sum = 0;
  for (std::size_t q = 0; q < levels.size(); ++q) {
    const double low = q == 0 ? 0 : 0.5 * (levels[q - 1] + levels[q]),
                 high = q + 1 == levels.size() ? 1 : 0.5 * (levels[q] + levels[q + 1]);
    sum += (high - low) * loss[q];
  }
  return sum;
}

QuantileErrors::QuantileErrors(std::vector<double> levels, Index horizons, std::vector<double> weights)
    : levels_(std::move(levels)),
      horizons_(horizons),
      weights_(std::move(weights)),
      sums_(static_cast<std::size_t>(horizons) * levels_.size() * sums_of_level) {}

template <class T>
void QuantileErrors::add(Index level, Index horizon, NodeView<const T> forecast, const Series& truth,
                         std::span<const Index> origins) {
  const auto q = static_cast<std::size_t>(level);
  const double tau = levels_[q];
  double* sums = sums_.data() + (static_cast<std::size_t>(horizon - 1) * levels_.size() + q) * sums_of_level;
  for (Index i = 0; i < forecast.rows; ++i) {
    const double weight = weights_.empty() ? 1 : weights_[static_cast<std::size_t>(i)];
    for (Index b = 0; b < forecast.cols; ++b) {
      const float* observed =
          truth.at(origins[static_cast<std::size_t>(b)] + horizon) + i * forecast.channels;
      for (Index f = 0; f < forecast.channels; ++f) {
        if (std::isnan(observed[f])) continue;
        const double at = static_cast<double>(forecast.at(i, b)[f]),
                     error = static_cast<double>(observed[f]) - at;
        sums[0] += weight;
        sums[1] += weight * (error < 0);
        sums[2] += weight * (error <= 0);
        sums[3] += weight * 2 * (error > 0 ? tau * error : (tau - 1) * error);
        sums[4] -= weight * error;
      }
    }
  }
}

std::vector<QuantileScores> QuantileErrors::reduce(Reducer& reducer) const {
  std::vector<double> sums = sums_;
  reducer.sum(std::span<double>(sums));
  std::vector<QuantileScores> scores(static_cast<std::size_t>(horizons_));
  const double* at = sums.data();
  for (QuantileScores& s : scores)
    for (std::size_t q = 0; q < levels_.size(); ++q, at += sums_of_level) {
      s.weight = at[0];
      s.below.push_back(at[1] / at[0]);
      s.not_above.push_back(at[2] / at[0]);
      s.loss.push_back(at[3] / at[0]);
      s.offset.push_back(at[4] / at[0]);
    }
  return scores;
}

template void QuantileErrors::add<float>(Index, Index, NodeView<const float>, const Series&,
                                         std::span<const Index>);
template void QuantileErrors::add<double>(Index, Index, NodeView<const double>, const Series&,
                                          std::span<const Index>);

}  // namespace rossby
