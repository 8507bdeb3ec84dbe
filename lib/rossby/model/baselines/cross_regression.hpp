#pragma once

#include <span>
#include <vector>

#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/spd_solver.hpp"
#include "rossby/model/baselines/own_regression.hpp"

namespace rossby {

/// Ridge regression of the own regressions' residuals on one feature's anomalies of all nodes at lags 0, …,
/// lags − 1. Each node's anomalies are scaled to variance 1. It is solved in the smaller of the primal and
/// the dual form.
class CrossRegression {
 public:
  static constexpr Index most_primal = 1024;  // regressors
  static constexpr Index most_dual = 1024;    // training steps: only the last ones are used

  /// `anomalies` must outlive this object. `own_period`: train on anomalies from the cycle of all training
  /// steps, not on those from a cycle without their own day or year. `solver` knows the number of rows before
  /// this rank's; null: the primal form works on one rank only. Collective.
  CrossRegression(const AnomalySeries& anomalies, std::span<const Index> steps, Index feature, Index lags,
                  bool own_period, const SpdSolver* solver, Reducer& reducer);

  /// Returns the training steps in use.
  [[nodiscard]] std::span<const Index> steps() const { return steps_; }
  /// Returns the number of unknowns per target: regressors, or training steps in the dual form.
  [[nodiscard]] Index size() const { return primal_ ? nodes_ * lags_ : std::ssize(steps_); }

  /// Returns (origins, size()): the regressors of all nodes, or their scalar products with the regressors of
  /// the training steps. Collective.
  [[nodiscard]] std::vector<double> products(std::span<const Index> origins, Reducer& reducer) const;

  /// Returns (origins, size()). Multiplied with right-hand sides, they give the forecasts from the origins of
  /// `products`. The diagonal has ridge × the mean eigenvalue. Empty if the matrix is not positive definite.
  [[nodiscard]] std::vector<double> weights(double ridge, std::vector<double> products) const;

  /// Returns regressors of all nodes at the training steps, (steps, size()); empty in the dual form.
  /// Collective.
  [[nodiscard]] std::vector<double> training_regressors(Reducer& reducer) const;

  /// Returns right-hand sides (columns, size()) of targets (steps, columns). `all`: training_regressors().
  [[nodiscard]] std::vector<double> right_hand_sides(std::span<const double> targets, Index columns,
                                                     std::span<const double> all) const;

 private:
  [[nodiscard]] const Series& trained() const { return anomalies_->known(!own_period_); }
  [[nodiscard]] float value(const Series& series, Index t, Index row) const {
    return series.values[(t * series.rows + row) * series.features + feature_];
  }
  [[nodiscard]] double regressor(const Series& series, Index t, Index lag, Index row) const;
  [[nodiscard]] std::vector<double> gathered(const Series& series, std::span<const Index> origins,
                                             Reducer& reducer) const;
  void add_products(const Series& series, std::span<const Index> origins, std::vector<double>& result) const;
  void make_gram(Reducer& reducer);

  const AnomalySeries* anomalies_;
  Index feature_, lags_;
  bool own_period_;
  Index nodes_ = 0, first_ = 0;  // number of all ranks' nodes; first node of this rank
  bool primal_ = false;
  std::vector<Index> steps_;
  std::vector<double> scale_;  // (rows)
  std::vector<double> gram_;   // (size(), size())
};

}  // namespace rossby
