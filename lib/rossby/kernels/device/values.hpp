#pragma once

#include <cmath>

#include "rossby/kernels/adam_constants.hpp"
#include "rossby/kernels/device/launch.hpp"

// Functions of kernels on single values.

namespace rossby::ROSSBY_DEVICE {

template <class T>
ROSSBY_ON_DEVICE inline T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

/// One update of Adam or AdamW; m is not read if beta1 = 0.
template <class T>
ROSSBY_ON_DEVICE inline void adam_step(T& theta, T& m, T& v, T gradient, const AdamConstants<T>& a) {
  const T g = a.scale * gradient + a.decay * theta;
  m = (a.beta1 == T(0) ? T(0) : a.beta1 * m) + a.rest1 * g;
  v = a.beta2 * v + a.rest2 * g * g;
  theta = a.keep * theta - a.step_size * m / (std::sqrt(v) * a.root_correction + a.epsilon);
}

}  // namespace rossby::ROSSBY_DEVICE
