#include "rossby/autograd/gradient_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace rossby {
namespace {

/// Five-point central difference of `loss` in one entry. Restores the entry exactly.
double slope(double& x, const std::function<double()>& loss, double step) {
  const double start = x;
  const auto at = [&](double offset) {
    x = start + offset;
    const double value = loss();
    x = start;
    return value;
  };
  return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
}

}  // namespace

GradientError check_gradient(std::span<double> x, std::span<const double> analytic,
                             const std::function<double()>& loss, double step, Index stride, double floor) {
  require(x.size() == analytic.size(), "a gradient has the size of what it belongs to");
  require(stride >= 1, "a stride is 1 or more");
  std::vector<double> numeric;
  double largest = floor;
  for (std::size_t k = 0; k < x.size(); k += static_cast<std::size_t>(stride)) {
    numeric.push_back(slope(x[k], loss, step));
    largest = std::max({largest, std::abs(numeric.back()), std::abs(analytic[k])});
  }
  GradientError worst;
  for (std::size_t s = 0; s < numeric.size(); ++s) {
    const std::size_t k = s * static_cast<std::size_t>(stride);
    double error = std::abs(analytic[k] - numeric[s]) / largest;
    if (!std::isfinite(analytic[k]) || !std::isfinite(numeric[s]))
      error = std::numeric_limits<double>::infinity();
    if (worst.index < 0 || error > worst.relative)
      worst = {error, static_cast<Index>(k), analytic[k], numeric[s], worst.parameter};
  }
  return worst;
}

GradientError check_gradients(std::span<Parameter<double>* const> parameters,
                              const std::function<double()>& loss, double step, Index stride, double floor) {
  std::vector<std::vector<double>> analytic;
  for (const Parameter<double>* parameter : parameters)
    analytic.emplace_back(parameter->gradient.begin(), parameter->gradient.end());
  GradientError worst;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    GradientError error = check_gradient(parameters[p]->value.span(), analytic[p], loss, step, stride, floor);
    if (error.index < 0 || (worst.index >= 0 && error.relative <= worst.relative)) continue;
    worst = error;
    worst.parameter = parameters[p]->name;
  }
  return worst;
}

}  // namespace rossby
