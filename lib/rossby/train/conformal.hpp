#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "rossby/data/transform.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// Quantiles of the observation about point forecasts, by split conformal prediction (Papadopoulos and
/// others, "Inductive confidence machines for regression", ECML 2002; normalised: Lei and others, JASA 113,
/// 2018). The residuals come from forecasts that the model was not trained on. They are taken in the space of
/// data.transform, divided by the spread of their node, and pooled over nodes for each lead and feature. The
/// quantile τ of n residuals has rank ⌈(n + 1)·τ⌉, below the median ⌊(n + 1)·τ⌋.
struct ConformalQuantiles {
  static constexpr Index levels = 199;  // τ = 0.005, 0.01, …, 0.995

  Index horizons = 0, features = 0;
  Transform transform;
  std::vector<double> centers = {};  // subtracted from the values, (rows, features); empty: nothing
  std::vector<double> spread = {};   // (rows, features), relative: about 1
  std::vector<double> offsets =
      {};  // (horizons, features, levels), ascending; NaN if there were no residuals
  std::vector<double> dressing = {};  // of an ensemble, (horizons, features): DressingFit

  /// Returns residuals (rows, features) at a horizon 1, 2, … of an origin. NaN marks a missing residual.
  using Residuals = std::function<const float*(Index horizon, Index origin)>;
  /// Estimates spread and offsets; all other members are already set. Collective.
  void fit(const Residuals& residuals, Index rows, Index origins, Reducer& reducer);

  [[nodiscard]] static double level(Index k) { return static_cast<double>(k + 1) / (levels + 1); }
  /// Returns f(observed) − f(forecast), not yet divided by the spread.
  [[nodiscard]] double residual(double forecast, double observed, Index column) const {
    return transform.forward(observed + center(column)) - transform.forward(forecast + center(column));
  }
  /// Returns the quantile for τ in [0.005, 0.995]. Interpolates between the stored levels.
  [[nodiscard]] double quantile(double forecast, Index horizon, Index row, Index feature, double tau) const {
    return about(forecast, horizon, row, feature, tau, 1);
  }
  /// Returns the same for a member of the ensemble that these quantiles dress.
  [[nodiscard]] double dressed(double member, Index horizon, Index row, Index feature, double tau) const {
    return about(member, horizon, row, feature, tau,
                 dressing[static_cast<std::size_t>((horizon - 1) * features + feature)]);
  }
  /// Returns the offsets of a lead and feature, in units of the spread.
  [[nodiscard]] std::span<const double> at(Index horizon, Index feature) const {
    return std::span(offsets).subspan(static_cast<std::size_t>(((horizon - 1) * features + feature) * levels),
                                      levels);
  }
  [[nodiscard]] double center(Index column) const {
    return centers.empty() ? 0 : centers[static_cast<std::size_t>(column)];
  }

 private:
  /// Returns the quantile with offsets multiplied by `scale`.
  [[nodiscard]] double about(double forecast, Index horizon, Index row, Index feature, double tau,
                             double scale) const;
};

/// Share of residuals in the central intervals of 50 and 90 %.
struct Coverage {
  double interval_50 = 0, interval_90 = 0;
};

/// Returns the coverage by horizon on left-out residuals: origins are split into `left_out_blocks` blocks of
/// neighbours, and the residuals of each block are compared with quantiles that fit() finds from the other
/// blocks. `like` has horizons and features. Empty if there are fewer than `least_left_out_origins` origins,
/// or more than `most_left_out_residuals` on all ranks (each block costs a fit). NaN: a horizon without
/// residuals. Collective.
[[nodiscard]] std::vector<Coverage> left_out_coverage(const ConformalQuantiles& like,
                                                      const ConformalQuantiles::Residuals& residuals,
                                                      Index rows, Index origins, Reducer& reducer);
constexpr Index left_out_blocks = 5, least_left_out_origins = 2 * left_out_blocks;
constexpr double most_left_out_residuals = 1e7;

/// Calibration of intervals at one horizon: weighted means.
struct IntervalScores {
  static constexpr Index bins = 10;
  double weight = 0;
  double inside_50 = 0, inside_90 = 0;  // share of observations in the central intervals
  double width_50 = 0, width_90 = 0;    // of these intervals
  double crps =
      0;  // continuous ranked probability score, as the mean of twice the pinball losses of all levels
  std::array<double, bins> pit =
      {};               // share of observations by their predicted probability: 0.1 each, at best
  double variance = 0;  // of the predictive distributions; only DressedErrors finds it
};

/// Returns the means of these weighted sums over all ranks. Collective.
[[nodiscard]] std::vector<IntervalScores> reduce_scores(const std::vector<IntervalScores>& sums,
                                                        Reducer& reducer);

/// Accumulates how observations lie in the quantiles of one forecaster.
class IntervalErrors {
 public:
  /// `weights` (rows) may be empty. `quantiles` must outlive this object.
  IntervalErrors(const ConformalQuantiles& quantiles, Index horizons, std::vector<double> weights);

  void add(const ScoredValues& values);
  /// Returns the scores by horizon. Collective.
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
