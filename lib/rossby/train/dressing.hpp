#pragma once

#include <span>
#include <vector>

#include "rossby/train/conformal.hpp"

namespace rossby {

// Ensembles dressed with residuals (Roulston and Smith, "Combining dynamical and statistical ensembles",
// Tellus A 55, 2003). The prediction is a mixture of the members by their weights. Around each member lie the
// residuals of the members' average: ConformalQuantiles whose offsets are multiplied by a factor c. c² = 1 −
// D/R gives the mixture the variance of the errors (Wang and Bishop, "Improvement of ensemble reliability
// with a new dressing kernel", QJRMS 131, 2005). D is the mean square of members less their average; R is the
// mean square of the residuals of the average. Both are taken in the space of data.transform and divided by
// the squared spread of the node. If D exceeds R, c is 0.

/// Forecasts of an ensemble's members for one step, each (rows, features), and the observations.
struct MemberValues {
  Index horizon = 0, rows = 0;
  std::span<const float* const> forecasts;  // of members with a weight
  std::span<const double> weights;          // of these members; their sum is 1
  const float* average = nullptr;           // weighted mean of the forecasts
  const float* observed = nullptr;          // NaN where missing
};

/// Estimates the factors c of dressed members.
class DressingFit {
 public:
  /// `quantiles` belong to the average, without dressing. They must outlive this object.
  explicit DressingFit(const ConformalQuantiles& quantiles);

  /// Adds forecasts for targets that no member was trained on.
  void add(const MemberValues& values);
  /// Returns ConformalQuantiles::dressing; 0 if there were no residuals. Collective.
  [[nodiscard]] std::vector<double> reduce(Reducer& reducer) const;

 private:
  const ConformalQuantiles* quantiles_;
  std::vector<double> sums_;  // (horizons, features, {D, R})
};

/// Computes the quantiles of dressed members at the levels of ConformalQuantiles, in the space of the
/// transform. A quantile is the smallest value whose probability reaches the level. `members` are values in
/// that space with `weights`. `offsets` (levels) are ascending and already scaled. `quantiles` has room for
/// all levels.
void mix_quantiles(std::span<const double> members, std::span<const double> weights,
                   std::span<const double> offsets, std::span<double> quantiles);

/// The part of a mixture that realization `number` of `count` stands for. The member is the one in whose
/// share of the weights (number + ½) / count falls. The golden ratio picks the quantile, so that the
/// quantiles of a member are evenly spread.
struct Realization {
  Index member = 0;
  double quantile = 0.5;
};
[[nodiscard]] Realization realization_of(Index number, Index count, std::span<const double> weights);

/// Accumulates how observations lie in the predictions of dressed members: IntervalScores, with variances.
class DressedErrors {
 public:
  /// `weights` (rows) may be empty. `quantiles`, with their dressing, must outlive this object.
  DressedErrors(const ConformalQuantiles& quantiles, Index horizons, std::vector<double> weights);

  void add(const MemberValues& values);
  /// Returns the scores by horizon. Collective.
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
