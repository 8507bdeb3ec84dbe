#pragma once

#include <functional>
#include <span>
#include <string>

#include "rossby/autograd/parameter.hpp"

namespace rossby {

/// The largest difference between a gradient and finite differences.
struct GradientError {
  double relative = 0;  // |analytic − numeric| over the array's largest |numeric| or |analytic|
  Index index = -1;     // of the entry; −1: nothing was checked
  double analytic = 0;
  double numeric = 0;
  std::string parameter;  // name, from check_gradients
};

/// Compares `analytic`, the gradient of `loss` with respect to `x`, with five-point central differences of
/// width `step` (error of order step⁴). Moves every `stride`-th entry of x by ±step and ±2·step, then
/// restores it. `loss` evaluates the functional at the current x. Avoid entries closer than 2·step to a kink
/// (relu at 0, clamp at 0 and 1). If all gradients are below `floor`, errors are relative to `floor`. A NaN
/// on either side gives an infinite error.
[[nodiscard]] GradientError check_gradient(std::span<double> x, std::span<const double> analytic,
                                           const std::function<double()>& loss, double step = 1e-4,
                                           Index stride = 1, double floor = 1e-8);

/// Returns the worst error over several parameters. On entry, their `gradient` buffers hold the analytic
/// gradients; `loss` may overwrite them. If `loss` is collective, every rank must own equally many entries.
[[nodiscard]] GradientError check_gradients(std::span<Parameter<double>* const> parameters,
                                            const std::function<double()>& loss, double step = 1e-4,
                                            Index stride = 1, double floor = 1e-8);

}  // namespace rossby
