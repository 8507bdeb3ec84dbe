#pragma once

#include <span>
#include <vector>

#include "rossby/train/conformal.hpp"

namespace rossby {

// Ensembles dressed with residuals (Roulston and Smith, "Combining dynamical and statistical ensembles",
// Tellus A 55, 2003). What is predicted is a mixture of the members by their weights, each with the residuals
// of the members' average about it: ConformalQuantiles whose offsets are multiplied by a factor c. c² = 1 −
// D/R gives the mixture the variance of the errors (Wang and Bishop, "Improvement of ensemble reliability
// with a new dressing kernel", QJRMS 131, 2005). D is the mean square of members less their average, R that
// of the residuals of the average. Both are taken in the space of data.transform and divided by the squared
// spread of the node. c is 0 if the members are farther apart than their average is wrong.

/// Forecasts of an ensemble's members for one step, each (rows, features), beside what was observed.
struct MemberValues {
  Index horizon = 0, rows = 0;
  std::span<const float* const> forecasts;  // of the members that have a weight
  std::span<const double> weights;          // their weights, whose sum is 1
  const float* average = nullptr;           // weighted mean of the forecasts
  const float* observed = nullptr;          // NaN where missing
};

/// Finds the factors c of dressed members.
class DressingFit {
 public:
  /// `quantiles` are those of the average, without their dressing; they outlive it.
  explicit DressingFit(const ConformalQuantiles& quantiles);

  /// Of targets that no member was trained on.
  void add(const MemberValues& values);
  /// ConformalQuantiles::dressing; 0 where there were no residuals. Collective.
  [[nodiscard]] std::vector<double> reduce(Reducer& reducer) const;

 private:
  const ConformalQuantiles* quantiles_;
  std::vector<double> sums_;  // (horizons, features, {D, R})
};

/// Quantiles of what dressed members predict, in the space of the transform, at the levels of
/// ConformalQuantiles: the smallest value whose probability reaches the level. `members` are values in that
/// space, `weights` theirs; offsets (levels) are ascending and scaled already. `quantiles` has room for the
/// levels.
void mix_quantiles(std::span<const double> members, std::span<const double> weights,
                   std::span<const double> offsets, std::span<double> quantiles);

/// The part of a mixture that realization `number` of `count` is: the member in whose share of the weights
/// (number + ½) / count falls, and a quantile by the golden ratio, so that those of a member lie evenly.
struct Realization {
  Index member = 0;
  double quantile = 0.5;
};
[[nodiscard]] Realization realization_of(Index number, Index count, std::span<const double> weights);

/// Adds up how observations lie in what dressed members predict: IntervalScores, with variances.
class DressedErrors {
 public:
  /// `weights` (rows) may be empty. `quantiles`, with their dressing, outlive it.
  DressedErrors(const ConformalQuantiles& quantiles, Index horizons, std::vector<double> weights);

  void add(const MemberValues& values);
  /// By horizon. Collective.
  [[nodiscard]] std::vector<IntervalScores> reduce(Reducer& reducer) const {
    return reduce_scores(sums_, reducer);
  }

 private:
  void add(IntervalScores& sum, double weight, double observed, Index horizon, Index row, Index feature,
           std::span<const double> weights);
  const ConformalQuantiles* quantiles_;
  std::vector<double> weights_;
  std::vector<IntervalScores> sums_;
  std::vector<double> members_, offsets_, mixed_;  // of one target
};

}  // namespace rossby
