#include "rossby/train/learning_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr std::array offsets{0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0};
constexpr std::array exponents{0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4};
constexpr std::array noises{0.003, 0.01, 0.03, 0.1};
constexpr double forgetting = 0.1;  // further noise of a point for each factor e of steps before the last
constexpr double prior_weight = 4;  // checks that the prior counts as
constexpr double gain_weight = 2;

double log_steps(Index steps) {
  return std::log(static_cast<double>(std::max<Index>(steps, 1)));
}

/// log of ρ + (1 − ρ)·r^(−c) for log r: the curve over its value at the last point.
double log_shape(double offset, double exponent, double log_ratio) {
  return std::log(offset + (1 - offset) * std::exp(-exponent * log_ratio));
}

/// Moments of a mixture of normal distributions with weights that are logs.
class Mixture {
 public:
  void add(double log_weight, double mean, double variance) {
    parts_.push_back({log_weight, mean, variance});
    top_ = std::max(top_, log_weight);
  }
  [[nodiscard]] LogError moments() const {
    double sum = 0, mean = 0, square = 0;
    for (const Part& part : parts_) {
      const double weight = std::exp(part.log_weight - top_);
      sum += weight;
      mean += weight * part.mean;
      square += weight * (part.variance + part.mean * part.mean);
    }
    mean /= sum;
    return {mean, std::sqrt(std::max(square / sum - mean * mean, 0.0))};
  }

 private:
  struct Part {
    double log_weight, mean, variance;
  };
  std::vector<Part> parts_;
  double top_ = -std::numeric_limits<double>::infinity();
};

/// Adds the fit of one offset, exponent and noise to the mixture.
void add_fit(Mixture& mixture, std::span<const CurvePoint> points, double far, double offset, double exponent,
             double noise) {
  const double last = log_steps(points.back().steps);
  double weight = 0, level = 0, likelihood = 0;
  const auto variance_at = [&](double before) {
    return noise * noise + forgetting * forgetting * before * before;
  };
  for (const CurvePoint& point : points) {
    const double before = last - log_steps(point.steps), variance = variance_at(before);
    level += (std::log(point.error) - log_shape(offset, exponent, -before)) / variance;
    weight += 1 / variance;
  }
  level /= weight;
  for (const CurvePoint& point : points) {
    const double before = last - log_steps(point.steps), variance = variance_at(before);
    const double miss = std::log(point.error) - level - log_shape(offset, exponent, -before);
    likelihood -= 0.5 * (miss * miss / variance + std::log(variance));
  }
  likelihood -= 0.5 * std::log(weight);  // the level is unknown before
  // Errors that fall towards 0 are rare.
  const double prior = 2 * std::log(offset + 0.05);
  mixture.add(prior + likelihood, level + log_shape(offset, exponent, far), 1 / weight);
}

}  // namespace

LogError extrapolate(std::span<const CurvePoint> points, Index steps) {
  require(!points.empty(), "a curve has a point");
  for (std::size_t k = 0; k < points.size(); ++k)
    require(points[k].error > 0 && std::isfinite(points[k].error) &&
                (k == 0 || points[k].steps > points[k - 1].steps),
            "points of a curve ascend and are above 0");
  const double far = std::max(log_steps(steps) - log_steps(points.back().steps), 0.0);
  Mixture mixture;
  for (const double offset : offsets)
    for (const double exponent : exponents)
      for (const double noise : noises) add_fit(mixture, points, far, offset, exponent, noise);
  return mixture.moments();
}

LogError extrapolate(std::span<const CurvePoint> points, Index steps, const CurveTrust& trust) {
  LogError log = extrapolate(points, steps);
  const double far = std::max(log_steps(steps) - log_steps(points.back().steps), 0.0);
  log.mean += trust.drift * far;
  log.sd = std::sqrt(log.sd * log.sd + trust.spread * trust.spread * far);
  return log;
}

CurveTrust learn_trust(std::span<const CurveCheck> checks, std::span<const CurveCheck> ends,
                       const CurveTrust& prior) {
  CurveTrust trust = prior;
  double way = 0, miss = 0;
  for (const CurveCheck& check : checks) {
    way += log_steps(check.to) - log_steps(check.from);
    miss += std::log(check.error) - check.extrapolated.mean;
  }
  trust.drift = (prior_weight * prior.drift + miss) / (prior_weight + way);
  double squares = prior_weight * prior.spread * prior.spread, count = prior_weight;
  for (const CurveCheck& check : checks) {
    const double far = log_steps(check.to) - log_steps(check.from);
    if (far <= 0) continue;
    const double off = std::log(check.error) - check.extrapolated.mean - trust.drift * far;
    squares += off * off / far;
    count += 1;
  }
  trust.spread = std::sqrt(squares / count);
  double gain = gain_weight * prior.gain, gains = gain_weight * prior.gain_sd * prior.gain_sd;
  for (const CurveCheck& end : ends) {
    const double far = log_steps(end.to) - log_steps(end.from);
    gain += std::log(end.error) - end.extrapolated.mean - trust.drift * far;
  }
  const double all = gain_weight + static_cast<double>(ends.size());
  trust.gain = gain / all;
  for (const CurveCheck& end : ends) {
    const double far = log_steps(end.to) - log_steps(end.from);
    const double off = std::log(end.error) - end.extrapolated.mean - trust.drift * far - trust.gain;
    gains += off * off;
  }
  trust.gain_sd = std::sqrt(gains / all);
  return trust;
}

}  // namespace rossby
