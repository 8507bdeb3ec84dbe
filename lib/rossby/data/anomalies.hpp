#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// Mean over `steps` of every (row, feature), without missing values. For a node without values, the
/// feature's mean over all ranks, or 0 if the feature has no values at all. (rows, features). Collective.
[[nodiscard]] std::vector<double> training_means(const Series& series, std::span<const Index> steps,
                                                 Reducer& reducer);

/// Lag-one autoregression about the mean, a = Σ x'(t)·x'(t−1) / Σ x'(t−1)² over the steps t of `pairs` at
/// which both are observed; 0 if the denominator is 0. (rows, features).
[[nodiscard]] std::vector<double> lag_one_coefficients(const Series& series, std::span<const double> mean,
                                                       std::span<const Index> pairs);

/// The anomalies x − mean of one feature in a block of rows, out (steps.size(), count) row-major; 0 if the
/// value is missing or the step lies before the series.
void pack_anomalies(const Series& series, std::span<const double> mean, std::span<const Index> steps,
                    Index feature, Index first_row, Index count, std::span<double> out);

/// Keeps copies in double small.
constexpr Index rows_at_a_time = 512;

/// Calls body(first_row, count) for blocks of at most rows_at_a_time.
template <class Body>
void for_row_blocks(Index rows, Body body) {
  for (Index first = 0; first < rows; first += rows_at_a_time)
    body(first, std::min(rows_at_a_time, rows - first));
}

/// Scalar products of the anomaly fields of one feature at the given steps, summed over the rows of all
/// ranks: (steps, steps), symmetric. Collective: one sum of steps² doubles.
[[nodiscard]] std::vector<double> gram_matrix(const Series& series, std::span<const double> mean,
                                              std::span<const Index> steps, Index feature, Reducer& reducer);

/// Leading empirical orthogonal functions of one feature: unit patterns over the nodes of all ranks,
/// unweighted, and their amplitudes (principal components), x'(t) ≈ Σ_k amplitude[t, k] · pattern[·, k].
struct Eofs {
  Index rows = 0;                  // owned
  Index modes = 0;                 // as requested, or fewer if the data's rank is smaller
  std::vector<double> pattern;     // (rows, modes)
  std::vector<double> amplitude;   // (steps, modes)
  std::vector<double> eigenvalue;  // (modes), descending: Σ_t amplitude²
};

/// EOFs from the steps × steps Gram matrix (method of snapshots: Sirovich, Quarterly of Applied Mathematics
/// 45, 1987), which never needs nodes × nodes. Signs: the amplitude of largest magnitude is positive. Every
/// rank gets the same amplitudes. Collective.
[[nodiscard]] Eofs leading_eofs(const Series& series, std::span<const double> mean,
                                std::span<const Index> steps, Index feature, Index modes, Reducer& reducer);

/// Cholesky factor of a symmetric positive definite matrix (size, size) in place. Returns false if the matrix
/// is not positive definite.
[[nodiscard]] bool cholesky(std::span<double> matrix, Index size);

/// Solves A·x = b for each of `count` right-hand sides, in place; `factor` from cholesky(); right (count,
/// size) row-major.
void cholesky_solve(std::span<const double> factor, Index size, std::span<double> right, Index count);

}  // namespace rossby
