#pragma once

#include <span>
#include <vector>

#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/spd_solver.hpp"
#include "rossby/model/baselines/own_regression.hpp"

namespace rossby {

/// Ridge regression of targets, which the own regressions left, on the anomalies of all nodes at lags 0, …,
/// lags − 1, of one feature. Each node's anomalies are scaled to variance 1. Solved in the primal or the dual
/// form, whichever is smaller.
class CrossRegression {
 public:
  static constexpr Index most_primal = 1024;  // regressors
  static constexpr Index most_dual = 1024;    // training steps: the last ones

  /// `anomalies` outlives it. `own_period`: trains on anomalies from the cycle of all training steps, and not
  /// on those from a cycle without their own day or year. `solver` knows how many rows come before this
  /// rank's; null: the primal form is for one rank alone. Collective.
  CrossRegression(const AnomalySeries& anomalies, std::span<const Index> steps, Index feature, Index lags,
                  bool own_period, const SpdSolver* solver, Reducer& reducer);

  /// The training steps that it uses.
  [[nodiscard]] std::span<const Index> steps() const { return steps_; }
  /// Unknowns of a target: regressors, or training steps in the dual form.
  [[nodiscard]] Index size() const { return primal_ ? nodes_ * lags_ : std::ssize(steps_); }

  /// (origins, size()): the regressors of all nodes, or their scalar products with those of the training
  /// steps. Collective.
  [[nodiscard]] std::vector<double> products(std::span<const Index> origins, Reducer& reducer) const;

  /// (origins, size()): multiplied with right-hand sides they are the forecasts from the origins of
  /// `products`, with ridge × the mean eigenvalue on the diagonal. Empty if the matrix is not positive
  /// definite.
  [[nodiscard]] std::vector<double> weights(double ridge, std::vector<double> products) const;

  /// Regressors of all nodes at its training steps, (steps, size()); empty in the dual form. Collective.
  [[nodiscard]] std::vector<double> training_regressors(Reducer& reducer) const;

  /// Right-hand sides (columns, size()) of targets (steps, columns). `all`: training_regressors().
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
  Index nodes_ = 0, first_ = 0;  // of all ranks; before this one
  bool primal_ = false;
  std::vector<Index> steps_;
  std::vector<double> scale_;  // (rows)
  std::vector<double> gram_;   // (size(), size())
};

}  // namespace rossby
