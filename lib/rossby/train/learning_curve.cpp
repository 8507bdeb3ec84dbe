#include "rossby/train/learning_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr std::array heights{0.0, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.35,
                             0.6, 1.0,  1.8,  3.0,  6.0,  12.0, 25.0};
constexpr std::array exponents{0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4};
constexpr std::array noises{0.003, 0.01, 0.03, 0.1};
constexpr std::size_t shapes = heights.size() * exponents.size() * noises.size();
constexpr double forgetting = 0.04;  // extra noise of a point for each factor e of steps before the last one
constexpr double prior_weight = 4;   // weight of the prior, in checks
constexpr double gain_weight = 2;

double log_steps(Index steps) {
  return std::log(static_cast<double>(std::max<Index>(steps, 1)));
}

/// Form of a curve relative to its end, and the noise of its points.
struct Shape {
  double height, exponent, noise;

  explicit Shape(std::size_t place)
      : height(heights[place / (exponents.size() * noises.size())]),
        exponent(exponents[place / noises.size() % exponents.size()]),
        noise(noises[place % noises.size()]) {}
  /// Returns log(E(t) / E(1)) for the log of the share t.
  [[nodiscard]] double log_at(double log_share) const {
    const double first_hundredth = std::expm1(exponent * std::log(100.0));
    return std::log1p(height * std::expm1(-exponent * log_share) / first_hundredth);
  }
};

struct Fit {
  double log_likelihood = 0, level = 0, variance = 0;  // of log E(1)
};

Fit fit(const Shape& shape, std::span<const CurvePoint> points, Index complete) {
  const double last = log_steps(points.back().steps), end = log_steps(complete);
  const auto variance_of = [&](const CurvePoint& point) {
    const double before = forgetting * (last - log_steps(point.steps));
    return shape.noise * shape.noise + before * before;
  };
  double weight = 0, level = 0, likelihood = 0;
  for (const CurvePoint& point : points) {
    const double variance = variance_of(point);
    level += (std::log(point.error) - shape.log_at(log_steps(point.steps) - end)) / variance;
    weight += 1 / variance;
  }
  level /= weight;
  for (const CurvePoint& point : points) {
    const double variance = variance_of(point);
    const double miss = std::log(point.error) - level - shape.log_at(log_steps(point.steps) - end);
    likelihood -= 0.5 * (miss * miss / variance + std::log(variance));
  }
  likelihood -= 0.5 * std::log(weight);  // the prior of the level is flat
  return {likelihood, level, 1 / weight};
}

/// Returns weights of fits under a prior; their sum is 1.
std::vector<double> weights_of(const std::vector<Fit>& fits, const std::vector<double>& prior) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const Fit& one : fits) top = std::max(top, one.log_likelihood);
  std::vector<double> weights(fits.size());
  for (std::size_t k = 0; k < fits.size(); ++k)
    sum += weights[k] = prior[k] * std::exp(fits[k].log_likelihood - top);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<Fit> fits_of(std::span<const CurvePoint> points, Index complete) {
  require(!points.empty(), "a curve has a point");
  for (std::size_t k = 0; k < points.size(); ++k)
    require(points[k].error > 0 && std::isfinite(points[k].error) &&
                (k == 0 || points[k].steps > points[k - 1].steps),
            "points of a curve ascend and are above 0");
  std::vector<Fit> fits;
  for (std::size_t k = 0; k < shapes; ++k) fits.push_back(fit(Shape(k), points, complete));
  return fits;
}

}  // namespace

CurveShapes::CurveShapes() : prior_(shapes), learned_(shapes) {
  double sum = 0;
  for (std::size_t k = 0; k < shapes; ++k)
    // Curves that fall by a large factor are rare, and so are noisy curves.
    sum += prior_[k] = 1 / ((0.5 + Shape(k).height) * (0.01 + Shape(k).noise));
  for (double& weight : prior_) weight /= sum;
}

void CurveShapes::learn(std::span<const CurvePoint> points, Index complete) {
  if (points.size() < 3) return;
  const std::vector<double> weights = weights_of(fits_of(points, complete), prior_);
  for (std::size_t k = 0; k < shapes; ++k) learned_[k] += weights[k];
}

void CurveShapes::learn(const CurveShapes& others, double weight) {
  for (std::size_t k = 0; k < shapes; ++k) learned_[k] += weight * others.learned_[k];
}

LogError CurveShapes::extrapolate(std::span<const CurvePoint> points, Index complete, Index steps) const {
  const std::vector<Fit> fits = fits_of(points, complete);
  std::vector<double> prior = prior_;
  for (std::size_t k = 0; k < shapes; ++k) prior[k] += learned_[k];
  const std::vector<double> weights = weights_of(fits, prior);
  double mean = 0, square = 0;
  for (std::size_t k = 0; k < shapes; ++k) {
    const double at = fits[k].level + Shape(k).log_at(log_steps(steps) - log_steps(complete));
    mean += weights[k] * at;
    square += weights[k] * (fits[k].variance + at * at);
  }
  return {mean, std::sqrt(std::max(square - mean * mean, 0.0))};
}

double CurveShapes::noise(std::span<const CurvePoint> points, Index complete) const {
  std::vector<double> prior = prior_;
  for (std::size_t k = 0; k < shapes; ++k) prior[k] += learned_[k];
  const std::vector<double> weights = weights_of(fits_of(points, complete), prior);
  double variance = 0;
  for (std::size_t k = 0; k < shapes; ++k) variance += weights[k] * Shape(k).noise * Shape(k).noise;
  return std::sqrt(variance);
}

LogError with_trust(const LogError& extrapolated, Index from, Index to, const CurveTrust& trust) {
  const double far = std::max(log_steps(to) - log_steps(from), 0.0);
  return {extrapolated.mean,
          std::sqrt(extrapolated.sd * extrapolated.sd + trust.spread * trust.spread * far)};
}

CurveTrust learn_trust(std::span<const CurveCheck> checks, std::span<const CurveCheck> ends,
                       const CurveTrust& prior) {
  CurveTrust trust = prior;
  double squares = prior_weight * prior.spread * prior.spread, count = prior_weight;
  for (const CurveCheck& check : checks) {
    const double far = log_steps(check.to) - log_steps(check.from);
    if (far <= 0) continue;
    const double off = std::log(check.error) - check.extrapolated.mean;
    // Count only the variance that the fits did not predict.
    squares += std::max(off * off - check.extrapolated.sd * check.extrapolated.sd, 0.0) / far;
    count += 1;
  }
  trust.spread = std::sqrt(squares / count);
  double gain = gain_weight * prior.gain, gains = gain_weight * prior.gain_sd * prior.gain_sd;
  for (const CurveCheck& end : ends) gain += std::log(end.error) - end.extrapolated.mean;
  const double all = gain_weight + static_cast<double>(ends.size());
  trust.gain = gain / all;
  for (const CurveCheck& end : ends) {
    const double off = std::log(end.error) - end.extrapolated.mean - trust.gain;
    gains += off * off;
  }
  trust.gain_sd = std::sqrt(gains / all);
  return trust;
}

}  // namespace rossby
