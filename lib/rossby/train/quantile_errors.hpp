#pragma once

#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Quality of forecast quantiles at one horizon: weighted means.
struct QuantileScores {
  double weight = 0;
  // For each quantile: share of the observations below it, and not above it; twice its pinball loss; mean of
  // quantile − observation.
  std::vector<double> below = {}, not_above = {}, loss = {}, offset = {};

  /// Returns the share of the observations between two of the quantiles, and the mean distance of the two.
  [[nodiscard]] double inside(std::size_t low, std::size_t high) const {
    return not_above[high] - below[low];
  }
  [[nodiscard]] double width(std::size_t low, std::size_t high) const { return offset[high] - offset[low]; }
  /// Returns the continuous ranked probability score, ∫ 2 ρ_τ dτ from 0 to 1 (Laio and Tamea, Hydrol. Earth
  /// Syst. Sci. 11, 2007). For each τ, ρ is taken at the nearest of `levels`, so that a few quantiles give an
  /// approximation.
  [[nodiscard]] double crps(std::span<const double> levels) const;
};

/// Accumulates the errors of forecast quantiles.
class QuantileErrors {
 public:
  /// `levels` ascend. `weights` (rows) may be empty.
  QuantileErrors(std::vector<double> levels, Index horizons, std::vector<double> weights);

  /// Adds one quantile: forecasts (rows, origins, features) against steps origin + horizon of `truth`.
  template <class T>
  void add(Index level, Index horizon, NodeView<const T> forecast, const Series& truth,
           std::span<const Index> origins);
  /// Returns the scores by horizon. Collective.
  [[nodiscard]] std::vector<QuantileScores> reduce(Reducer& reducer) const;
  [[nodiscard]] const std::vector<double>& levels() const { return levels_; }

 private:
  std::vector<double> levels_;
  Index horizons_;
  std::vector<double> weights_;
  std::vector<double> sums_;  // (horizons, levels, {weight, below, not above, loss, offset})
};

}  // namespace rossby
