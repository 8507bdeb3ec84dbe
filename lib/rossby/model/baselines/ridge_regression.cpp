#include "rossby/model/baselines/ridge_regression.hpp"

#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"

namespace rossby {
namespace {

constexpr double residual = 1e-12;  // of the iterative solution, for unit right-hand sides

/// c (m, n) += op(a)·b with a (m, k), or (k, m) if transposed, and b (k, n), all packed.
void multiply_add(bool transposed, Index m, Index n, Index k, const double* a, const double* b, double* c) {
  if (m == 0 || n == 0 || k == 0) return;
  cblas_dgemm(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, static_cast<int>(m),
              static_cast<int>(n), static_cast<int>(k), 1.0, a, static_cast<int>(transposed ? m : k), b,
              static_cast<int>(n), 1.0, c, static_cast<int>(n));
}

double target(const RidgeProblem& problem, Index t, Index row) {
  const Index c = row * problem.series->features + problem.feature;
  return problem.anomaly(t + 1, row) - problem.coefficient[as_size(c)] * problem.anomaly(t, row);
}

/// Returns λ from the trace over all ranks. If a field has no anomalies, any positive diagonal gives
/// coefficients of 0.
double ridge_of(double trace, const RidgeProblem& problem) {
  return trace > 0 ? problem.ridge * trace / static_cast<double>(problem.middle.size()) : 1;
}

/// ΦᵀΦ + λI, applied to blocks of columns (2·rows, columns): this rank's x'(t), then its x'(t−1).
class NormalMatrix {
 public:
  NormalMatrix(const RidgeProblem& problem, Reducer& reducer, Index columns)
      : problem_(problem),
        reducer_(reducer),
        columns_(columns),
        steps_(static_cast<Index>(problem.steps.size())) {
    double trace = 0;
    for (const Index j : problem.middle)
      for (Index i = 0; i < rows(); ++i)
        for (const Index t : {problem.steps[as_size(j)], problem.steps[as_size(j - 1)]})
          trace += problem.anomaly(t, i) * problem.anomaly(t, i);
    reducer.sum(std::span<double>(&trace, 1));
    ridge_ = ridge_of(trace, problem);
    for (auto* list : {&now_, &before_}) list->resize(as_size(steps_ * columns_));
    fields_.resize(problem.middle.size() * as_size(columns_));
  }

  void apply(std::span<const double> x, std::span<double> y) {
    project(x);
    lift(fields_, y);
    for (std::size_t k = 0; k < y.size(); ++k) y[k] += ridge_ * x[k];
  }

  /// y = Φᵀ·fields of this rank's rows; fields (pairs, columns).
  void lift(const std::vector<double>& fields, std::span<double> y) {
    std::fill(now_.begin(), now_.end(), 0.0);
    std::fill(before_.begin(), before_.end(), 0.0);
    for (std::size_t p = 0; p < problem_.middle.size(); ++p) {
      const double* field = fields.data() + p * as_size(columns_);
      const Index j = problem_.middle[p];
      std::copy_n(field, columns_, now_.begin() + j * columns_);
      std::copy_n(field, columns_, before_.begin() + (j - 1) * columns_);
    }
    std::fill(y.begin(), y.end(), 0.0);
    for_blocks([&](Index first, Index count) {
      multiply_add(true, count, columns_, steps_, block_.data(), now_.data(), y.data() + first * columns_);
      multiply_add(true, count, columns_, steps_, block_.data(), before_.data(),
                   y.data() + (rows() + first) * columns_);
    });
  }

 private:
  [[nodiscard]] Index rows() const { return problem_.series->rows; }

  template <class Body>
  void for_blocks(Body body) {
    for_row_blocks(rows(), [&](Index first, Index count) {
      block_.resize(as_size(steps_ * count));
      pack_anomalies(*problem_.series, problem_.mean, problem_.steps, problem_.feature, first, count, block_);
      body(first, count);
    });
  }

  /// fields_ = Φ·x over all ranks.
  void project(std::span<const double> x) {
    std::fill(now_.begin(), now_.end(), 0.0);
    std::fill(before_.begin(), before_.end(), 0.0);
    for_blocks([&](Index first, Index count) {
      multiply_add(false, steps_, columns_, count, block_.data(), x.data() + first * columns_, now_.data());
      multiply_add(false, steps_, columns_, count, block_.data(), x.data() + (rows() + first) * columns_,
                   before_.data());
    });
    for (std::size_t p = 0; p < problem_.middle.size(); ++p) {
      const Index j = problem_.middle[p];
      for (Index k = 0; k < columns_; ++k)
        fields_[p * as_size(columns_) + as_size(k)] =
            now_[as_size(j * columns_ + k)] + before_[as_size((j - 1) * columns_ + k)];
    }
    reducer_.sum(std::span<double>(fields_));
  }

  const RidgeProblem& problem_;
  Reducer& reducer_;
  Index columns_, steps_;
  double ridge_ = 0;
  std::vector<double> block_;         // (steps, rows of a block)
  std::vector<double> now_, before_;  // (steps, columns)
  std::vector<double> fields_;        // (pairs, columns)
};

/// Returns Y of targets [first, first + count) of all ranks, (pairs, count).
std::vector<double> targets_of(const RidgeProblem& problem, Index first, Index count, Reducer& reducer) {
  std::vector<double> y(problem.middle.size() * as_size(count));
  for (Index i = 0; i < problem.series->rows; ++i) {
    const Index k = problem.first_row + i - first;
    if (k < 0 || k >= count) continue;
    for (std::size_t p = 0; p < problem.middle.size(); ++p)
      y[p * as_size(count) + as_size(k)] = target(problem, problem.steps[as_size(problem.middle[p])], i);
  }
  reducer.sum(std::span<double>(y));
  return y;
}

}  // namespace

double RidgeProblem::anomaly(Index t, Index row) const {
  if (t < 0) return 0;
  const float x = series->at(t, row, feature);
  return std::isnan(x) ? 0 : static_cast<double>(x) - mean[as_size(row * series->features + feature)];
}

std::vector<double> ridge_dense(const RidgeProblem& problem, Reducer& reducer) {
  constexpr Index block = 256;  // pairs whose fields are summed at once
  const Index rows = problem.series->rows, n = problem.all_rows, width = problem.coefficients();
  const auto pairs = static_cast<Index>(problem.middle.size());
  std::vector<double> normal(as_size(2 * rows * width)), result(as_size(rows * width)), all, own, y;
  for (Index begin = 0; begin < pairs; begin += block) {
    const Index count = std::min(block, pairs - begin);
    all.assign(as_size(count * width), 0);
    own.resize(as_size(count * 2 * rows));
    y.resize(as_size(count * rows));
    for (Index p = 0; p < count; ++p) {
      const Index j = problem.middle[as_size(begin + p)];
      for (Index i = 0; i < rows; ++i) {
        const double now = problem.anomaly(problem.steps[as_size(j)], i);
        const double before = problem.anomaly(problem.steps[as_size(j - 1)], i);
        all[as_size(p * width + problem.first_row + i)] = own[as_size(p * 2 * rows + i)] = now;
        all[as_size(p * width + n + problem.first_row + i)] = own[as_size(p * 2 * rows + rows + i)] = before;
        y[as_size(p * rows + i)] = target(problem, problem.steps[as_size(j)], i);
      }
    }
    reducer.sum(std::span<double>(all));
    multiply_add(true, 2 * rows, width, count, own.data(), all.data(), normal.data());
    multiply_add(true, rows, width, count, y.data(), all.data(), result.data());
  }
  std::vector<double> matrix(as_size(width * width));
  for (const Index lag : {0, 1})
    for (Index i = 0; i < rows; ++i)
      std::copy_n(normal.begin() + (lag * rows + i) * width, width,
                  matrix.begin() + (lag * n + problem.first_row + i) * width);
  reducer.sum(std::span<double>(matrix));
  double trace = 0;
  for (Index k = 0; k < width; ++k) trace += matrix[as_size(k * width + k)];
  const double ridge = ridge_of(trace, problem);
  for (Index k = 0; k < width; ++k) matrix[as_size(k * width + k)] += ridge;
  if (width > 0 && !cholesky(matrix, width))
    user_error("evaluate.ridge = {}: the matrix of {} coefficients is singular. Raise evaluate.ridge",
               problem.ridge, width);
  cholesky_solve(matrix, width, result, rows);
  return result;
}

std::vector<double> ridge_iterative(const RidgeProblem& problem, Reducer& reducer, const SpdSolver& solver,
                                    Index& iterations) {
  constexpr Index values = Index{1} << 22;  // in a block of targets over all steps
  const Index rows = problem.series->rows, n = problem.all_rows, width = problem.coefficients();
  const auto steps = static_cast<Index>(problem.steps.size());
  const Index columns = std::clamp<Index>(values / std::max<Index>(steps, 1), 16, 256);
  std::vector<double> result(as_size(rows * width));
  for (Index first = 0; first < n; first += columns) {
    const Index count = std::min(columns, n - first);
    NormalMatrix matrix(problem, reducer, count);
    std::vector<double> right(as_size(2 * rows * count)), x(right.size());
    std::vector<double> norm(as_size(count)), block(as_size(count * width));
    matrix.lift(targets_of(problem, first, count, reducer), right);
    for (std::size_t k = 0; k < right.size(); ++k) norm[k % norm.size()] += right[k] * right[k];
    reducer.sum(std::span<double>(norm));
    for (double& length : norm) length = length > 0 ? std::sqrt(length) : 1;
    for (std::size_t k = 0; k < right.size(); ++k) right[k] /= norm[k % norm.size()];
    iterations += solver.solve([&](auto in, auto out) { matrix.apply(in, out); }, right, x, residual);
    for (const Index lag : {0, 1})
      for (Index i = 0; i < rows; ++i)
        for (Index k = 0; k < count; ++k)
          block[as_size(k * width + lag * n + problem.first_row + i)] =
              x[as_size((lag * rows + i) * count + k)] * norm[as_size(k)];
    reducer.sum(std::span<double>(block));
    for (Index k = 0; k < count; ++k)
      if (const Index i = first + k - problem.first_row; i >= 0 && i < rows)
        std::copy_n(block.begin() + k * width, width, result.begin() + i * width);
  }
  return result;
}

}  // namespace rossby
