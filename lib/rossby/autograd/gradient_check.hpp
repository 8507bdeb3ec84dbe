#pragma once

#include <functional>
#include <span>
#include <string>

#include "rossby/autograd/parameter.hpp"

namespace rossby {

/// The worst disagreement between a gradient and finite differences.
struct GradientError {
  double relative = 0;  // |analytic − numeric| over the largest |numeric| or |analytic| of the array
  Index index = -1;     // where; −1: nothing was checked
  double analytic = 0;
  double numeric = 0;
  std::string parameter;  // its name, from check_gradients
};

/// Compares `analytic`, the gradient of `loss` with respect to `x`, with five-point central differences of
/// width `step` (error of order step⁴): every `stride`-th entry of x is moved by ±step, ±2·step and put back.
/// `loss` evaluates the functional at the present x. Entries closer than 2·step to a kink (relu at 0, clamp
/// at 0 and 1) must be avoided. Where all gradients are below `floor`, errors are relative to `floor`. A NaN
/// on either side gives an infinite error.
[[nodiscard]] GradientError check_gradient(std::span<double> x, std::span<const double> analytic,
                                           const std::function<double()>& loss, double step = 1e-4,
                                           Index stride = 1, double floor = 1e-8);

/// The same over parameters, whose `gradient` buffers hold the analytic gradients on entry (`loss` may
/// overwrite them). The worst error over all of them. Where `loss` is collective, every rank must own equally
/// many entries.
[[nodiscard]] GradientError check_gradients(std::span<Parameter<double>* const> parameters,
                                            const std::function<double()>& loss, double step = 1e-4,
                                            Index stride = 1, double floor = 1e-8);

}  // namespace rossby
