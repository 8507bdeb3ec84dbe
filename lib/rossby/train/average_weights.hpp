#pragma once

#include <span>
#include <vector>

#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// Weights of an average of forecasters with errors e_k: the inverse of each mean squared error, normalised
/// to sum 1. These weights are optimal if the errors are independent (Bates and Granger, Operational Research
/// Quarterly 20, 1969). If members have no error at all, they share the weight. `gram` is (members, members):
/// mean of e_j·e_k. No weight is negative.
[[nodiscard]] std::vector<double> inverse_error_weights(std::span<const double> gram);

/// Weights w ≥ 0 with Σw = 1 that minimise the mean squared error wᵀGw of the average (stacked regressions:
/// Breiman, Machine Learning 24, 1996). They are the point of least norm in the convex hull of the members'
/// errors. Wolfe's method (Mathematical Programming 11, 1976) finds it from their Gram matrix alone. If
/// members have the same errors, the first one gets the weight.
[[nodiscard]] std::vector<double> stacking_weights(std::span<const double> gram);

/// Returns the mean squared error wᵀGw of the average.
[[nodiscard]] double mean_square(std::span<const double> gram, std::span<const double> weights);

/// Accumulates products of the errors of several forecasters, by horizon and variable. A target that is not
/// observed is left out for all forecasters.
class ErrorGram {
 public:
  /// `features` holds the number of features of each variable.
  ErrorGram(Index members, Index horizons, std::vector<Index> features);

  /// Adds forecasts of one origin at one horizon (1, 2, …). `forecasts` has one pointer per member; forecasts
  /// and target are (rows, features). A value that is not finite although its target is observed counts as
  /// lost.
  void add(Index horizon, std::span<const float* const> forecasts, const float* target, Index rows);

  /// Sums over all ranks. Collective.
  void reduce(Reducer& reducer);

  [[nodiscard]] Index members() const { return members_; }
  [[nodiscard]] Index horizons() const { return horizons_; }
  /// Returns the number of observed targets at a horizon.
  [[nodiscard]] double count(Index horizon) const;
  /// Returns the number of values that a member lacks although their target is observed.
  [[nodiscard]] double lost(Index member) const { return lost_[static_cast<std::size_t>(member)]; }
  /// Returns mean products of errors at a horizon over all variables, (members, members). With `scaled`, each
  /// variable has the same influence, whatever its unit: its products are divided by the members' mean
  /// squared error at all horizons.
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
