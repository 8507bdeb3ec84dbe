#pragma once

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Sums are taken in double over blocks of rows that depend on the shape alone, in a fixed order: the same
// bits at every number of threads. Shapes of all operands are equal. A NaN target is a missing one: it adds
// nothing, whatever the prediction is.

enum class MaskedError { squared, absolute };

// *sum is added to at once by the host's kernels, by a device's when it settles (Device::settle): it stays in
// place until then. The forms that return a sum wait for it.

/// *sum += Σ (prediction − target)² or Σ |prediction − target| over observed entries.
template <class T>
void masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                      NodeView<const float> target, double* sum);
template <class T>
[[nodiscard]] double masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                                      NodeView<const float> target) {
  double sum = 0;
  masked_error_sum(exec, kind, prediction, target, &sum);
  settle(exec);
  return sum;
}

/// dprediction += scale · gradient of masked_error_sum; for `absolute` the sign, 0 where both are equal.
template <class T>
void masked_error_backward(const Exec& exec, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale);

/// *sum += Σ (a − b)².
template <class T>
void squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b, double* sum);
template <class T>
[[nodiscard]] double squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b) {
  double sum = 0;
  squared_difference_sum(exec, a, b, &sum);
  settle(exec);
  return sum;
}

/// A gradient that a kernel writes, or adds to.
template <class T>
struct GradientOut {
  NodeView<T> to;  // no data: nobody wants it
  bool add = true;
};

/// The same, and at once its gradients: da = or += 2·scale·(a − b), db = or −= that. da and db may be one, of
/// which the second is then added to.
template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum);

}  // namespace rossby
