#pragma once

#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/spd_solver.hpp"

namespace rossby {

/// The regression behind the ridge VAR, of one feature: targets y = x'(t+1) − a∘x'(t) of all n nodes on
/// φ = [x'(t), x'(t−1)] of all nodes, at the training steps t_p with both neighbours. Solved in its primal
/// form, B = (ΦᵀΦ + λI)⁻¹·Φᵀ·Y with λ = ridge × trace(ΦΦᵀ) / pairs: 2n unknowns a target however many steps
/// there are.
struct RidgeProblem {
  const Series* series = nullptr;       // this rank's rows
  std::span<const double> mean;         // (rows, features)
  std::span<const double> coefficient;  // a, (rows, features)
  std::span<const Index> steps;         // training steps, ascending
  std::span<const Index> middle;        // places j in `steps` with steps j−1, j, j+1 in a row
  Index feature = 0;
  double ridge = 0;
  Index first_row = 0;  // rows of the ranks before this one
  Index all_rows = 0;   // n

  [[nodiscard]] Index coefficients() const { return 2 * all_rows; }
  /// x'(t) of a row, 0 where missing or before the series.
  [[nodiscard]] double anomaly(Index t, Index row) const;
};

/// Coefficients of this rank's targets, (rows, 2n): those of x'(t) of all nodes, then those of x'(t−1). By
/// Cholesky factorisation of the 2n × 2n matrix on every rank; memory O(n²). Throws UserError where ridge = 0
/// leaves it singular. Collective.
[[nodiscard]] std::vector<double> ridge_dense(const RidgeProblem& problem, Reducer& reducer);

/// The same by `solver`, which needs products with ΦᵀΦ + λI alone: a rank computes with its own rows and one
/// sum of (pairs, targets) a product. Targets are solved for in blocks, each block as one system, scaled to
/// unit right-hand sides: one Krylov space serves them all, since the matrix is the same. Adds to
/// `iterations`. Memory beside the result: O(T) for each target of a block. Collective.
[[nodiscard]] std::vector<double> ridge_iterative(const RidgeProblem& problem, Reducer& reducer,
                                                  const SpdSolver& solver, Index& iterations);

}  // namespace rossby
