#include "rossby/kernels/loss.hpp"

#include <array>
#include <numeric>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/losses.hpp"

namespace rossby::cpu {

namespace {

/// The other errors are seldom trained on and have no kernels for each instruction set.
bool is_common(MaskedError kind) {
  return kind.kind == MaskedError::squared || kind.kind == MaskedError::absolute;
}

}  // namespace

template <class T>
void masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                      NodeView<const float> target, double* sum) {
  const LossKernels<T>& kernels = kernels_of<LossKernels, T>(exec.isa);
  if (!is_common(kind)) {
    *sum += reduce_runs(
        exec,
        [kind](Index size, const T* p, const float* x) {
          std::array<double, 8> parts{};  // as exact as the vectors of the common errors
          for (Index k = 0; k < size; ++k)
            if (x[k] == x[k])
              parts[static_cast<std::size_t>(k % 8)] +=
                  kind.value(static_cast<double>(p[k]) - static_cast<double>(x[k]));
          return std::accumulate(parts.begin(), parts.end(), 0.0);
        },
        prediction, target);
    return;
  }
  *sum += reduce_runs(exec,
                      kind == MaskedError::squared ? kernels.masked_squared_sum : kernels.masked_absolute_sum,
                      prediction, target);
}

template <class T>
void masked_error_backward(const Exec& exec, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale) {
  const LossKernels<T>& kernels = kernels_of<LossKernels, T>(exec.isa);
  if (!is_common(kind))
    return for_each_run(
        exec,
        [kind, scale](Index size, T* to, const T* p, const float* x) {
          for (Index k = 0; k < size; ++k)
            if (x[k] == x[k]) to[k] += static_cast<T>(scale) * kind.gradient(p[k] - static_cast<T>(x[k]));
        },
        dprediction, prediction, target);
  const bool squared = kind == MaskedError::squared;
  const auto f = squared ? kernels.masked_squared_backward : kernels.masked_absolute_backward;
  const T factor = static_cast<T>(squared ? 2 * scale : scale);
  for_each_run(
      exec, [=](Index size, T* to, const T* p, const float* x) { f(size, to, p, x, factor); }, dprediction,
      prediction, target);
}

template <class T>
void squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b, double* sum) {
  *sum += reduce_runs(exec, kernels_of<LossKernels, T>(exec.isa).squared_difference_sum, a, b);
}

template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum) {
  const auto f = kernels_of<LossKernels, T>(exec.isa).squared_difference_gradients;
  const T factor = static_cast<T>(2 * scale);
  const bool add_a = da.add, add_b = db.add;
  T* const none = nullptr;
  if (da.to.data && db.to.data)
    *sum += reduce_runs(
        exec,
        [=](Index size, const T* x, const T* y, T* left, T* right) {
          return f(size, left, add_a, right, add_b, x, y, factor);
        },
        a, b, da.to, db.to);
  else if (da.to.data)
    *sum += reduce_runs(
        exec,
        [=](Index size, const T* x, const T* y, T* left) {
          return f(size, left, add_a, none, add_b, x, y, factor);
        },
        a, b, da.to);
  else if (db.to.data)
    *sum += reduce_runs(
        exec,
        [=](Index size, const T* x, const T* y, T* right) {
          return f(size, none, add_a, right, add_b, x, y, factor);
        },
        a, b, db.to);
  else
    cpu::squared_difference_sum(exec, a, b, sum);
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, masked_error_sum, masked_error_backward, squared_difference_sum,
                 squared_difference_gradients)
