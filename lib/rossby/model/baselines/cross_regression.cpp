#include "rossby/model/baselines/cross_regression.hpp"

#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "rossby/data/anomalies.hpp"

namespace rossby {
CrossRegression::CrossRegression(const AnomalySeries& anomalies, std::span<const Index> steps, Index feature,
                                 Index lags, bool own_period, const SpdSolver* solver, Reducer& reducer)
    : anomalies_(&anomalies), feature_(feature), lags_(lags), own_period_(own_period) {
  const Index rows = anomalies.full.rows;
  double all = static_cast<double>(rows);
  reducer.sum(std::span<double>(&all, 1));
  nodes_ = std::llround(all);
  first_ = solver ? solver->rows_before(rows) : 0;
  primal_ = nodes_ * lags <= std::min<Index>(most_primal, std::ssize(steps)) && (solver || reducer.alone());
  steps_.assign(steps.begin(), steps.end());
  if (!primal_ && std::ssize(steps_) > most_dual) steps_.erase(steps_.begin(), steps_.end() - most_dual);
  scale_.assign(as_size(rows), 1.0);
  std::vector<double> squares(as_size(rows) + 1), number(as_size(rows) + 1);
  for (const Index t : steps_)
    for (Index i = 0; i < rows; ++i) {
      const auto x = static_cast<double>(value(trained(), t, i));
      squares[as_size(i)] += x * x;
      number[as_size(i)] += 1;
    }
  for (Index i = 0; i < rows; ++i) squares.back() += squares[as_size(i)], number.back() += number[as_size(i)];
  double pooled[] = {squares.back(), number.back()};
  reducer.sum(pooled);
  const double usual = pooled[1] > 0 ? pooled[0] / pooled[1] : 1;
  for (Index i = 0; i < rows; ++i) {
    const double variance = (squares[as_size(i)] + usual) / (number[as_size(i)] + 1);
    scale_[as_size(i)] = variance > 0 ? 1 / std::sqrt(variance) : 1;
  }
  make_gram(reducer);
}

std::vector<double> CrossRegression::products(std::span<const Index> origins, Reducer& reducer) const {
  if (primal_) return gathered(anomalies_->known(false), origins, reducer);
  std::vector<double> result(origins.size() * steps_.size());
  add_products(anomalies_->known(false), origins, result);
  reducer.sum(std::span<double>(result));
  return result;
}

std::vector<double> CrossRegression::weights(double ridge, std::vector<double> products) const {
  std::vector<double> matrix = gram_;
  double trace = 0;
  for (Index i = 0; i < size(); ++i) trace += matrix[as_size(i * size() + i)];
  const double mean = trace / static_cast<double>(std::max<Index>(size(), 1));
  if (!(mean > 0)) return {};
  for (Index i = 0; i < size(); ++i) matrix[as_size(i * size() + i)] += ridge * mean;
  if (!cholesky(matrix, size())) return {};
  cholesky_solve(matrix, size(), products, std::ssize(products) / size());
  return products;
}

std::vector<double> CrossRegression::right_hand_sides(std::span<const double> targets, Index columns,
                                                      std::span<const double> all) const {
  std::vector<double> right(as_size(columns * size()));
  if (columns == 0 || steps_.empty()) return right;
  const auto n = static_cast<int>(size()), k = static_cast<int>(steps_.size()), c = static_cast<int>(columns);
  if (primal_)
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c, n, k, 1.0, targets.data(), c, all.data(), n, 0.0,
                right.data(), n);
  else
    for (Index q = 0; q < k; ++q)
      for (Index j = 0; j < columns; ++j) right[as_size(j * n + q)] = targets[as_size(q * columns + j)];
  return right;
}

std::vector<double> CrossRegression::training_regressors(Reducer& reducer) const {
  return primal_ ? gathered(trained(), steps_, reducer) : std::vector<double>();
}

/// Returns this rank's scaled regressor at a step and lag; 0 before the series.
double CrossRegression::regressor(const Series& series, Index t, Index lag, Index row) const {
  if (t < lag) return 0;
  return static_cast<double>(value(series, t - lag, row)) * scale_[as_size(row)];
}

/// Returns regressors of all nodes (origins, lags·nodes), summed over ranks.
std::vector<double> CrossRegression::gathered(const Series& series, std::span<const Index> origins,
                                              Reducer& reducer) const {
  const Index width = nodes_ * lags_;
  std::vector<double> all(origins.size() * as_size(width));
  for (std::size_t q = 0; q < origins.size(); ++q)
    for (Index l = 0; l < lags_; ++l)
      for (Index i = 0; i < series.rows; ++i)
        all[q * as_size(width) + as_size(l * nodes_ + first_ + i)] = regressor(series, origins[q], l, i);
  reducer.sum(std::span<double>(all));
  return all;
}

/// Adds the scalar products of regressors at `origins` with regressors at the training steps, over this
/// rank's rows.
void CrossRegression::add_products(const Series& series, std::span<const Index> origins,
                                   std::vector<double>& result) const {
  std::vector<double> a, b;
  for (Index l = 0; l < lags_; ++l)
    for_row_blocks(series.rows, [&](Index first, Index count) {
      const auto pack = [&](const Series& from, std::span<const Index> at, std::vector<double>& out) {
        out.resize(at.size() * as_size(count));
        for (std::size_t q = 0; q < at.size(); ++q)
          for (Index i = 0; i < count; ++i)
            out[q * as_size(count) + as_size(i)] = regressor(from, at[q], l, first + i);
      };
      pack(series, origins, a);
      pack(trained(), steps_, b);
      if (origins.empty() || steps_.empty()) return;
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(origins.size()),
                  static_cast<int>(steps_.size()), static_cast<int>(count), 1.0, a.data(),
                  static_cast<int>(count), b.data(), static_cast<int>(count), 1.0, result.data(),
                  static_cast<int>(steps_.size()));
    });
}

void CrossRegression::make_gram(Reducer& reducer) {
  const Index n = size();
  gram_.assign(as_size(n * n), 0.0);
  if (!primal_) {
    add_products(trained(), steps_, gram_);
    reducer.sum(std::span<double>(gram_));
    return;
  }
  constexpr std::size_t at_once = 512;
  for (std::size_t first = 0; first < steps_.size(); first += at_once) {
    const std::span<const Index> part =
        std::span<const Index>(steps_).subspan(first, std::min(at_once, steps_.size() - first));
    const std::vector<double> all = gathered(trained(), part, reducer);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(n), static_cast<int>(n),
                static_cast<int>(part.size()), 1.0, all.data(), static_cast<int>(n), all.data(),
                static_cast<int>(n), 1.0, gram_.data(), static_cast<int>(n));
  }
}

}  // namespace rossby
