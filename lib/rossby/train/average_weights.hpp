#pragma once

#include <span>
#include <vector>

#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// Weights of an average of forecasters with errors e_k: the inverse of each one's mean squared error over
/// their sum, which is the best that is known of errors if these do not depend on each other (Bates and
/// Granger, Operational Research Quarterly 20, 1969). Members without an error share the weight.
/// `gram` is (members, members): mean of e_j·e_k. None is negative, and their sum is 1.
[[nodiscard]] std::vector<double> inverse_error_weights(std::span<const double> gram);

/// The weights w ≥ 0 with Σw = 1 that minimise the mean squared error wᵀGw of the average (stacked
/// regressions: Breiman, Machine Learning 24, 1996): the point of least norm in the convex hull of the
/// members' errors, found by Wolfe's method (Mathematical Programming 11, 1976) from their Gram matrix alone.
/// Of members with the same errors the first one gets the weight.
[[nodiscard]] std::vector<double> stacking_weights(std::span<const double> gram);

/// Mean squared error wᵀGw of the average.
[[nodiscard]] double mean_square(std::span<const double> gram, std::span<const double> weights);

/// Adds up products of the errors of several forecasters, by horizon and variable. Targets that are not
/// observed are left out, for all forecasters alike.
class ErrorGram {
 public:
  /// `features` of each variable, one after the other.
  ErrorGram(Index members, Index horizons, std::vector<Index> features);

  /// Forecasts of one origin at one horizon (1, 2, …) against the targets, all (rows, features): `forecasts`
  /// has one a member. A value that is not finite where there is a target counts as lost.
  void add(Index horizon, std::span<const float* const> forecasts, const float* target, Index rows);

  /// One sum over all ranks. Collective.
  void reduce(Reducer& reducer);

  [[nodiscard]] Index members() const { return members_; }
  [[nodiscard]] Index horizons() const { return horizons_; }
  /// Observed targets at a horizon.
  [[nodiscard]] double count(Index horizon) const;
  /// Values that a member lacks where there is a target.
  [[nodiscard]] double lost(Index member) const { return lost_[static_cast<std::size_t>(member)]; }
  /// Mean products of errors at a horizon, (members, members), over all variables. With `scaled` each
  /// variable counts alike, whatever its unit: its products are divided by the members' mean squared error
  /// at all horizons.
  [[nodiscard]] std::vector<double> mean(Index horizon, bool scaled) const;

 private:
  [[nodiscard]] std::size_t offset(Index horizon, Index variable) const {
    return static_cast<std::size_t>(((horizon - 1) * std::ssize(features_) + variable) * (pairs_ + 1));
  }

  Index members_, horizons_, pairs_;
  std::vector<Index> features_;
  std::vector<double> sums_;  // (horizons, variables, {products of pairs j ≤ k, count})
  std::vector<double> lost_;  // (members)
};

}  // namespace rossby
