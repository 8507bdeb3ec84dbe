#pragma once

#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/spd_solver.hpp"

namespace rossby {

/// The regression of the ridge VAR for one feature: targets y = x'(t+1) − a∘x'(t) of all n nodes on φ =
/// [x'(t), x'(t−1)] of all nodes, at the training steps t_p with both neighbours. Solved in its primal form,
/// B = (ΦᵀΦ + λI)⁻¹·Φᵀ·Y with λ = ridge × trace(ΦΦᵀ) / pairs: 2n unknowns per target, whatever the number of
/// steps.
struct RidgeProblem {
  const Series* series = nullptr;       // this rank's rows
  std::span<const double> mean;         // (rows, features)
  std::span<const double> coefficient;  // a, (rows, features)
  std::span<const Index> steps;         // training steps, ascending
  std::span<const Index> middle;        // indices j into `steps` with consecutive steps j−1, j, j+1
  Index feature = 0;
  double ridge = 0;
  Index first_row = 0;  // rows of the ranks before this one
  Index all_rows = 0;   // n

  [[nodiscard]] Index coefficients() const { return 2 * all_rows; }
  /// Returns x'(t) of a row; 0 if missing or before the series.
  [[nodiscard]] double anomaly(Index t, Index row) const;
};

/// Returns coefficients of this rank's targets, (rows, 2n): first of x'(t), then of x'(t−1) of all nodes.
/// Every rank factorises the 2n × 2n matrix by Cholesky; memory O(n²). Throws UserError if ridge = 0 leaves
/// it singular. Collective.
[[nodiscard]] std::vector<double> ridge_dense(const RidgeProblem& problem, Reducer& reducer);

/// The same by `solver`, which needs only products with ΦᵀΦ + λI. For each product, a rank computes with its
/// own rows and joins one sum of (pairs, targets). Each block of targets is solved as one system, scaled to
/// unit right-hand sides: one Krylov space serves all targets because the matrix is the same. Adds to
/// `iterations`. Memory besides the result: O(T) for each target of a block. Collective.
[[nodiscard]] std::vector<double> ridge_iterative(const RidgeProblem& problem, Reducer& reducer,
                                                  const SpdSolver& solver, Index& iterations);

}  // namespace rossby
