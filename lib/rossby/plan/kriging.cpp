#include "rossby/plan/kriging.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "rossby/base/error.hpp"
#include "rossby/base/index.hpp"
#include "rossby/data/anomalies.hpp"

namespace rossby {
namespace {

using Point = Kriging::Point;
using Expected = Kriging::Expected;

constexpr std::size_t most_searched = 96;  // values: a search costs their number cubed, often
constexpr std::size_t fewest_searched = 6;
constexpr int sweeps = 4;
constexpr int choices = Kriging::dimensions + 2;
// Standard deviations of what is expected, of logarithms.
constexpr double length_doubt = 0.7, amplitude_doubt = 0.7, noise_doubt = 0.3;

double covariance(const Point& a, const Point& b, const Expected& e) {
  double squares = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double apart = (a[k] - b[k]) / e.lengths[k];
    squares += apart * apart;
  }
  const double r = std::sqrt(3 * squares);
  return e.amplitude * e.amplitude * (1 + r) * std::exp(-r);
}

/// Cholesky factor of the values' covariance; empty where rounding leaves it none.
std::vector<double> factor_of(const std::vector<Point>& points, const Expected& e) {
  const std::size_t n = points.size();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j)
      matrix[i * n + j] = matrix[j * n + i] = covariance(points[i], points[j], e);
    matrix[i * n + i] = e.amplitude * e.amplitude + e.noise * e.noise;
  }
  if (!cholesky(matrix, static_cast<Index>(n))) matrix.clear();
  return matrix;
}

std::vector<double> solve(const std::vector<double>& factor, std::vector<double> right) {
  const auto n = static_cast<Index>(right.size());
  cholesky_solve(factor, n, right, 1);
  return right;
}

double& choice(Expected& e, int which) {
  if (which < Kriging::dimensions) return e.lengths[static_cast<std::size_t>(which)];
  return which == Kriging::dimensions ? e.amplitude : e.noise;
}

/// −log of the likelihood times what is expected, but for a constant.
double unlikely(const std::vector<Point>& points, const std::vector<double>& values, Expected tried,
                Expected expected) {
  const std::vector<double> factor = factor_of(points, tried);
  if (factor.empty()) return std::numeric_limits<double>::infinity();
  const std::size_t n = values.size();
  const std::vector<double> weights = solve(factor, values);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += 0.5 * values[i] * weights[i] + std::log(factor[i * n + i]);
  for (int c = 0; c < choices; ++c) {
    const double doubt = c < Kriging::dimensions    ? length_doubt
                         : c == Kriging::dimensions ? amplitude_doubt
                                                    : noise_doubt;
    const double off = std::log(choice(tried, c) / choice(expected, c)) / doubt;
    sum += 0.5 * off * off;
  }
  return sum;
}

/// Each choice in turn, up or down where that is likelier, by smaller factors once none is.
Expected search(const std::vector<Point>& points, const std::vector<double>& values,
                const Expected& expected) {
  Expected best = expected;
  double least = unlikely(points, values, best, expected);
  double step = std::log(2.0);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool moved = false;
    for (int c = 0; c < choices; ++c)
      for (const double sign : {1.0, -1.0}) {
        Expected tried = best;
        choice(tried, c) *= std::exp(sign * step);
        const double now = unlikely(points, values, tried, expected);
        if (now >= least) continue;
        least = now;
        best = tried;
        moved = true;
        break;
      }
    if (!moved) step /= 2;
  }
  return best;
}

/// At most so many, evenly over all of them: those of one training follow each other.
template <class Value>
std::vector<Value> some_of(const std::vector<Value>& all, std::size_t most) {
  const std::size_t n = all.size(), count = std::min(n, most);
  std::vector<Value> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * n / count]);
  return some;
}

}  // namespace

Kriging::Kriging(const std::vector<Point>& points, const std::vector<double>& values,
                 const Expected& expected)
    : points_(some_of(points, most_kept)), found_(expected) {
  require(!points.empty() && points.size() == values.size(), "a value for every point");
  const std::vector<double> kept = some_of(values, most_kept);
  if (kept.size() >= fewest_searched)
    found_ = search(some_of(points_, most_searched), some_of(kept, most_searched), expected);
  const std::vector<double> factor = factor_of(points_, found_);
  require(!factor.empty(), "values with noise have a covariance that can be factored");
  weights_ = solve(factor, kept);
}

std::vector<double> Kriging::left_out() const {
  const std::vector<double> factor = factor_of(points_, found_);
  std::vector<double> errors;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    std::vector<double> unit(points_.size());
    unit[i] = 1;
    errors.push_back(-weights_[i] / solve(factor, std::move(unit))[i]);
  }
  return errors;
}

double Kriging::operator()(const Point& at) const {
  double sum = 0;
  for (std::size_t i = 0; i < points_.size(); ++i) sum += weights_[i] * covariance(points_[i], at, found_);
  return sum;
}

}  // namespace rossby
