#pragma once

#include <span>
#include <vector>

#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby {

/// A series as anomalies, on which regressions are fitted and from which forecasts start.
struct AnomalySeries {
  AnomalyMap map;
  std::vector<double> mean;  // (rows, features): subtracted in addition to `map`; 0 about a cycle
  Series training;           // training steps about a cycle without the values of their own day or year
  Series full;               // all steps about the cycle of the training part
  Series filled_training;    // without missing values (FactorModel); empty if no node has any
  Series filled_full;

  /// Makes anomalies about a cycle of `spec`, or about each node's training mean if there is none. `centers`
  /// were already subtracted from the values. `fill`: also makes the series without missing values. Throws
  /// UserError if the axis has no such cycle. Collective.
  static AnomalySeries of(const Series& series, std::span<const double> centers, const Split& split,
                          const TimeAxis& axis, const AnomalySpec& spec, Reducer& reducer, bool fill = true);

  /// Returns the regressors without missing values: of `training` or of `full`.
  [[nodiscard]] const Series& known(bool of_training) const {
    const Series& filled = of_training ? filled_training : filled_full;
    return filled.steps > 0 ? filled : of_training ? training : full;
  }
};

/// Factor analysis of one feature's anomalies: x(t) = Λ·m(t) + noise, with normal m(t) and a noise variance
/// for each node. Expectation maximisation fits it to values of which some are missing (Rubin and Thayer,
/// Psychometrika 47, 1982). A missing value is replaced by its mean given the other nodes' values at the same
/// step. Loadings are shrunk towards 0, so that unrelated nodes are filled with 0. Rows of Λ are owned like
/// rows of the series; memory O(rows · modes²).
class FactorModel {
 public:
  static constexpr Index most_modes = 8;
  static constexpr Index most_steps = 4096;  // training steps: only the last ones are used

  /// `steps`: training steps of `series`. Collective.
  FactorModel(const Series& series, std::span<const Index> steps, Index feature, Reducer& reducer);

  /// Replaces missing values of the feature by means, at all steps of `series`. Collective.
  void fill(Series& series, Reducer& reducer) const;

 private:
  struct Posterior;  // of the factors of some steps
  [[nodiscard]] Index packed() const { return modes_ * (modes_ + 1) / 2; }
  void set_scale(const Series& series, std::span<const Index> steps, Reducer& reducer);
  void start(const Series& series, std::span<const Index> steps, Reducer& reducer);
  void improve(const Series& series, std::span<const Index> steps, Reducer& reducer);
  [[nodiscard]] Posterior posterior(const Series& series, std::span<const Index> steps,
                                    Reducer& reducer) const;

  Index feature_, modes_ = 0;
  std::vector<double> scale_;     // (rows): standard deviations
  std::vector<double> loadings_;  // (rows, modes), of scaled values
  std::vector<double> noise_;     // (rows): variances
};

}  // namespace rossby
