#include "rossby/train/average_weights.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

Index members_of(std::span<const double> gram) {
  const auto members = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(gram.size()))));
  require(members >= 1 && members * members == std::ssize(gram), "a Gram matrix is square");
  return members;
}

/// Affine combination of members `used` with the least norm: solves Gu = 1 and returns w = u / Σu. A diagonal
/// term of 10⁻¹² of the trace keeps their errors independent. Returns an empty vector if there is none.
std::vector<double> least_norm(std::span<const double> gram, Index members, std::span<const Index> used) {
  const Index p = std::ssize(used);
  std::vector<double> a(as_size(p * p)), u(as_size(p), 1.0);
  double trace = 0;
  for (const Index j : used) trace += gram[as_size(j * members + j)];
  for (Index i = 0; i < p; ++i)
    for (Index j = 0; j < p; ++j)
      a[as_size(i * p + j)] =
          gram[as_size(used[as_size(i)] * members + used[as_size(j)])] + (i == j ? 1e-12 * trace : 0);
  for (Index j = 0; j < p; ++j) {  // Cholesky
    for (Index k = 0; k < j; ++k) a[as_size(j * p + j)] -= a[as_size(j * p + k)] * a[as_size(j * p + k)];
    if (!(a[as_size(j * p + j)] > 0)) return {};
    a[as_size(j * p + j)] = std::sqrt(a[as_size(j * p + j)]);
    for (Index i = j + 1; i < p; ++i) {
      for (Index k = 0; k < j; ++k) a[as_size(i * p + j)] -= a[as_size(i * p + k)] * a[as_size(j * p + k)];
      a[as_size(i * p + j)] /= a[as_size(j * p + j)];
    }
  }
  for (Index i = 0; i < p; ++i) {
    for (Index k = 0; k < i; ++k) u[as_size(i)] -= a[as_size(i * p + k)] * u[as_size(k)];
    u[as_size(i)] /= a[as_size(i * p + i)];
  }
  for (Index i = p - 1; i >= 0; --i) {
    for (Index k = i + 1; k < p; ++k) u[as_size(i)] -= a[as_size(k * p + i)] * u[as_size(k)];
    u[as_size(i)] /= a[as_size(i * p + i)];
  }
  const double sum = std::accumulate(u.begin(), u.end(), 0.0);
  if (!(sum > 0)) return {};
  for (double& x : u) x /= sum;
  return u;
}

}  // namespace

std::vector<double> inverse_error_weights(std::span<const double> gram) {
  const Index members = members_of(gram);
  std::vector<double> weights(as_size(members));
  const auto square = [&](Index k) { return gram[as_size(k * members + k)]; };
  double least = square(0);
  for (Index k = 1; k < members; ++k) least = std::min(least, square(k));
  // Relative to the least error, because 1 / error might overflow.
  for (Index k = 0; k < members; ++k)
    weights[as_size(k)] = square(k) > 0 ? least / square(k) : (least > 0 ? 0.0 : 1.0);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<double> stacking_weights(std::span<const double> gram) {
  const Index members = members_of(gram);
  Index best = 0;
  double trace = 0;
  for (Index k = 0; k < members; ++k) {
    if (gram[as_size(k * members + k)] < gram[as_size(best * members + best)]) best = k;
    trace += gram[as_size(k * members + k)];
  }
  std::vector<double> weights(as_size(members), 0.0);
  weights[as_size(best)] = 1;
  std::vector<Index> used{best};
  // Each round adds a member and lowers the norm, so no set of members recurs. The bound guards against
  // rounding.
  for (Index round = 0; round < 100 * members; ++round) {
    const double norm = mean_square(gram, weights);
    Index next = -1;
    double steepest = norm - 1e-12 * trace;
    for (Index k = 0; k < members; ++k) {
      double slope = 0;
      for (Index j = 0; j < members; ++j) slope += gram[as_size(k * members + j)] * weights[as_size(j)];
      const bool is_used = std::find(used.begin(), used.end(), k) != used.end();
      if (!is_used && slope < steepest) steepest = slope, next = k;
    }
    if (next < 0) break;
    used.push_back(next);
    while (true) {
      const std::vector<double> target = least_norm(gram, members, used);
      if (target.empty()) return weights;  // the new member depends on the others
      double step = 1;
      for (std::size_t i = 0; i < used.size(); ++i)
        if (const double w = weights[as_size(used[i])]; target[i] <= 0)
          step = std::min(step, w > 0 ? w / (w - target[i]) : 0);
      for (std::size_t i = 0; i < used.size(); ++i) {
        double& w = weights[as_size(used[i])];
        w += step * (target[i] - w);
      }
      if (step >= 1) break;
      std::vector<Index> left;
      for (std::size_t i = 0; i < used.size(); ++i) {
        double& w = weights[as_size(used[i])];
        if (target[i] > 0 || w > 1e-14)
          left.push_back(used[i]);
        else
          w = 0;
      }
      const bool taken = std::find(left.begin(), left.end(), next) != left.end();
      if (!taken || left.size() == used.size()) return weights;  // only rounding is left
      used = std::move(left);
    }
  }
  return weights;
}

double mean_square(std::span<const double> gram, std::span<const double> weights) {
  const Index members = members_of(gram);
  require(std::ssize(weights) == members, "a weight a member");
  double sum = 0;
  for (Index j = 0; j < members; ++j)
    for (Index k = 0; k < members; ++k)
      sum += weights[as_size(j)] * weights[as_size(k)] * gram[as_size(j * members + k)];
  return std::max(sum, 0.0);
}

ErrorGram::ErrorGram(Index members, Index horizons, std::vector<Index> features)
    : members_(members),
      horizons_(horizons),
      pairs_(members * (members + 1) / 2),
      features_(std::move(features)),
      sums_(as_size(horizons * std::ssize(features_) * (pairs_ + 1))),
      lost_(as_size(members)) {}

void ErrorGram::add(Index horizon, std::span<const float* const> forecasts, const float* target, Index rows) {
  require(horizon >= 1 && horizon <= horizons_ && std::ssize(forecasts) == members_,
          "a forecast a member at a horizon that is averaged");
  std::vector<double> error(as_size(members_));
  Index column = 0;
  for (Index i = 0; i < rows; ++i)
    for (Index v = 0; v < std::ssize(features_); ++v) {
      double* sums = sums_.data() + offset(horizon, v);
      for (Index f = 0; f < features_[as_size(v)]; ++f, ++column) {
        if (std::isnan(target[column])) continue;
        bool whole = true;
        for (std::size_t k = 0; k < error.size(); ++k) {
          error[k] = static_cast<double>(forecasts[k][column]) - static_cast<double>(target[column]);
          if (std::isfinite(error[k])) continue;
          lost_[k] += 1;
          whole = false;
        }
        if (!whole) continue;
        double* sum = sums;
        for (std::size_t j = 0; j < error.size(); ++j)
          for (std::size_t k = j; k < error.size(); ++k) *sum++ += error[j] * error[k];
        *sum += 1;
      }
    }
}

void ErrorGram::reduce(Reducer& reducer) {
  std::vector<double> all(sums_);
  all.insert(all.end(), lost_.begin(), lost_.end());
  reducer.ordered_sum(all);
  const auto middle = all.begin() + std::ssize(sums_);
  sums_.assign(all.begin(), middle);
  lost_.assign(middle, all.end());
}

double ErrorGram::count(Index horizon) const {
  double count = 0;
  for (Index v = 0; v < std::ssize(features_); ++v) count += sums_[offset(horizon, v) + as_size(pairs_)];
  return count;
}

std::vector<double> ErrorGram::mean(Index horizon, bool scaled) const {
  std::vector<double> gram(as_size(members_ * members_));
  double number = 0;
  for (Index v = 0; v < std::ssize(features_); ++v) {
    double unit = 1;
    if (scaled) {
      double squares = 0, targets = 0;
      for (Index h = 1; h <= horizons_; ++h) {
        const double* sum = sums_.data() + offset(h, v);
        for (Index j = 0; j < members_; ++j)
          for (Index k = j; k < members_; ++k, ++sum)
            if (j == k) squares += *sum;
        targets += *sum;
      }
      if (squares > 0) unit = static_cast<double>(members_) * targets / squares;
    }
    const double* sum = sums_.data() + offset(horizon, v);
    for (Index j = 0; j < members_; ++j)
      for (Index k = j; k < members_; ++k, ++sum) {
        gram[as_size(j * members_ + k)] += unit * *sum;
        if (j != k) gram[as_size(k * members_ + j)] += unit * *sum;
      }
    number += *sum;
  }
  if (number > 0)
    for (double& x : gram) x /= number;
  return gram;
}

}  // namespace rossby
