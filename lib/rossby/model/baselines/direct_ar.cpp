#include "rossby/model/baselines/direct_ar.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"

namespace rossby {
namespace {

/// Returns in `out` the lags of every column at an origin, (columns, lags).
void read_lags(const Series& series, Index origin, Index lags, std::vector<double>& out) {
  const Index width = series.rows * series.features;
  out.assign(as_size(width * lags), 0);
  for (Index l = 0; l < lags; ++l) {
    if (!series.holds(origin - l)) continue;
    const float* x = series.at(origin - l);
    for (Index c = 0; c < width; ++c)
      if (!std::isnan(x[c])) out[as_size(c * lags + l)] = x[c];
  }
}

}  // namespace

DirectAr DirectAr::fit(const Series& series, const Split& split, Index lead, Index lags, double pull,
                       Reducer& reducer) {
  DirectAr model;
  model.lags_ = lags;
  if (lags == 0) return model;
  const Index width = series.rows * series.features;
  const std::size_t p = as_size(lags), m = as_size(series.features), each = p * p + p;
  std::vector<double> products(as_size(width) * each), number(as_size(width)), x;
  for (const Index target : split.training_pairs(lead + lags - 1)) {
    read_lags(series, target - lead, lags, x);
    const float* y = series.at(target);
    for (std::size_t c = 0; c < number.size(); ++c) {
      if (std::isnan(y[c])) continue;
      double* gram = products.data() + c * each;
      number[c] += 1;
      for (std::size_t a = 0; a < p; ++a) {
        for (std::size_t b = 0; b < p; ++b) gram[a * p + b] += x[c * p + a] * x[c * p + b];
        gram[p * p + a] += x[c * p + a] * static_cast<double>(y[c]);
      }
    }
  }
  const auto trace = [&](const double* gram) {
    double sum = 0;
    for (std::size_t a = 0; a < p; ++a) sum += gram[a * p + a];
    return sum;
  };
  // Every node has the same weight, whatever its units.
  std::vector<double> pooled(m * each);
  for (std::size_t c = 0; c < number.size(); ++c) {
    const double size = trace(products.data() + c * each);
    for (std::size_t k = 0; size > 0 && k < each; ++k)
      pooled[c % m * each + k] += products[c * each + k] / size;
  }
  reducer.ordered_sum(pooled);
  model.coefficient_.assign(number.size() * p, 0);
  std::vector<double> common(m * p), matrix(p * p), right(p);
  const auto solve = [&](double* to) {
    if (!cholesky(matrix, lags)) return;
    cholesky_solve(matrix, lags, right, 1);
    std::copy(right.begin(), right.end(), to);
  };
  for (std::size_t f = 0; f < m; ++f) {
    const double* gram = pooled.data() + f * each;
    const double size = trace(gram) / static_cast<double>(p);
    if (size <= 0) continue;
    std::copy_n(gram, p * p, matrix.begin());
    std::copy_n(gram + p * p, p, right.begin());
    for (std::size_t a = 0; a < p; ++a) matrix[a * p + a] += 1e-4 * size;
    solve(common.data() + f * p);
  }
  for (std::size_t c = 0; c < number.size(); ++c) {
    const std::size_t f = c % m;
    const double* gram = products.data() + c * each;
    const double* shape = pooled.data() + f * each;
    double* to = model.coefficient_.data() + c * p;
    std::copy_n(common.data() + f * p, p, to);
    const double size = trace(gram) / static_cast<double>(p);
    if (size <= 0 || number[c] == 0) continue;
    const double unit = pull * size / number[c], scale = static_cast<double>(p) / trace(shape);
    for (std::size_t a = 0; a < p; ++a) {
      right[a] = gram[p * p + a];
      for (std::size_t b = 0; b < p; ++b) {
        right[a] -= gram[a * p + b] * to[b];
        matrix[a * p + b] = gram[a * p + b] + unit * (scale * shape[a * p + b] + (a == b ? 0.1 : 0.0));
      }
    }
    std::vector<double> apart(p);
    solve(apart.data());
    for (std::size_t a = 0; a < p; ++a) to[a] += apart[a];
  }
  return model;
}

void DirectAr::forecast(const Series& series, Index origin, std::span<double> out) const {
  require(std::ssize(out) * lags_ == std::ssize(coefficient_), "a forecast has a value of each column");
  std::vector<double> x;
  read_lags(series, origin, lags_, x);
  for (std::size_t c = 0; c < out.size(); ++c) {
    out[c] = 0;
    for (std::size_t l = 0; l < as_size(lags_); ++l)
      out[c] += coefficient_[c * as_size(lags_) + l] * x[c * as_size(lags_) + l];
  }
}

}  // namespace rossby
