#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "rossby/data/transform.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// Quantiles of what will be observed, about point forecasts, by split conformal prediction (Papadopoulos and
/// others, "Inductive confidence machines for regression", ECML 2002; normalised: Lei and others, JASA 113,
/// 2018). Residuals are of forecasts that the model was not trained on. They are taken in the space of
/// data.transform, divided by the spread of their node, and pooled over nodes for each lead and feature. The
/// quantile τ of n residuals is the one of rank ⌈(n + 1)·τ⌉, below the median ⌊(n + 1)·τ⌋.
struct ConformalQuantiles {
  static constexpr Index levels = 199;  // τ = 0.005, 0.01, …, 0.995

  Index horizons = 0, features = 0;
  Transform transform;
  std::vector<double> centers = {};  // were subtracted from values, (rows, features); empty: nothing
  std::vector<double> spread = {};   // (rows, features), relative: about 1
  std::vector<double> offsets =
      {};  // (horizons, features, levels), ascending; NaN if there were no residuals
  std::vector<double> dressing = {};  // of an ensemble, (horizons, features): see DressingFit

  /// Residuals (rows, features) at a horizon 1, 2, … of an origin, NaN if there is none.
  using Residuals = std::function<const float*(Index horizon, Index origin)>;
  /// Finds spread and offsets; the rest is set. Collective.
  void fit(const Residuals& residuals, Index rows, Index origins, Reducer& reducer);

  [[nodiscard]] static double level(Index k) { return static_cast<double>(k + 1) / (levels + 1); }
  /// f(observed) − f(forecast), before it is divided by the spread.
  [[nodiscard]] double residual(double forecast, double observed, Index column) const {
    return transform.forward(observed + center(column)) - transform.forward(forecast + center(column));
  }
  /// Of τ in [0.005, 0.995], between the levels that are kept by interpolation.
  [[nodiscard]] double quantile(double forecast, Index horizon, Index row, Index feature, double tau) const {
    return about(forecast, horizon, row, feature, tau, 1);
  }
  /// Of a member of the ensemble that these quantiles dress, likewise.
  [[nodiscard]] double dressed(double member, Index horizon, Index row, Index feature, double tau) const {
    return about(member, horizon, row, feature, tau,
                 dressing[static_cast<std::size_t>((horizon - 1) * features + feature)]);
  }
  /// Offsets of a lead and feature, in units of the spread.
  [[nodiscard]] std::span<const double> at(Index horizon, Index feature) const {
    return std::span(offsets).subspan(static_cast<std::size_t>(((horizon - 1) * features + feature) * levels),
                                      levels);
  }
  [[nodiscard]] double center(Index column) const {
    return centers.empty() ? 0 : centers[static_cast<std::size_t>(column)];
  }

 private:
  /// Offsets times `scale`.
  [[nodiscard]] double about(double forecast, Index horizon, Index row, Index feature, double tau,
                             double scale) const;
};

/// How calibrated intervals are, by horizon: weighted means.
struct IntervalScores {
  static constexpr Index bins = 10;
  double weight = 0;
  double inside_50 = 0, inside_90 = 0;  // share of observations in the central intervals
  double width_50 = 0, width_90 = 0;    // of these
  double crps =
      0;  // continuous ranked probability score, as the mean of twice the pinball losses of all levels
  std::array<double, bins> pit =
      {};               // share of observations by their predicted probability: 0.1 each, at best
  double variance = 0;  // of the predictive distributions; only DressedErrors finds it
};

/// Means of these weighted sums over all ranks. Collective.
[[nodiscard]] std::vector<IntervalScores> reduce_scores(const std::vector<IntervalScores>& sums,
                                                        Reducer& reducer);

/// Adds up how observations lie in the quantiles of one forecaster.
class IntervalErrors {
 public:
  /// `weights` (rows) may be empty. `quantiles` outlives it.
  IntervalErrors(const ConformalQuantiles& quantiles, Index horizons, std::vector<double> weights);

  void add(const ScoredValues& values);
  /// By horizon. Collective.
  [[nodiscard]] std::vector<IntervalScores> reduce(Reducer& reducer) const {
    return reduce_scores(sums_, reducer);
  }

 private:
  void add(IntervalScores& sum, double weight, double forecast, double observed, Index horizon, Index row,
           Index feature) const;
  const ConformalQuantiles* quantiles_;
  std::vector<double> weights_;
  std::vector<IntervalScores> sums_;
};

}  // namespace rossby
