#include "rossby/kernels/reductions.hpp"

#include <cmath>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/losses.hpp"

namespace rossby::cpu {

template <class T>
void sum_of_squares(const Exec& exec, std::span<const T> x, double* sum) {
  *sum += reduce_span(exec, std::ssize(x), kernels_of<LossKernels, T>(exec.isa).sum_of_squares, x.data());
}

template <class T>
Index first_non_finite(const Exec& exec, std::span<const T> x) {
  // A run is searched value by value only if the sum of x·0 is not 0: then it holds a NaN or infinity.
  const T* data = x.data();
  if (reduce_span(exec, std::ssize(x), kernels_of<LossKernels, T>(exec.isa).sum_of_nothing, data) == 0)
    return -1;
  Index k = 0;
  while (std::isfinite(data[k])) ++k;
  return k;
}

template <class T>
void clamp_l1_sum(const Exec& exec, std::span<const T> m, double* sum) {
  *sum += reduce_span(exec, std::ssize(m), kernels_of<LossKernels, T>(exec.isa).clamp_sum, m.data());
}

template <class T>
void clamp_l1_backward(const Exec& exec, std::span<T> dm, std::span<const T> m, double scale) {
  const auto f = kernels_of<LossKernels, T>(exec.isa).clamp_backward;
  const T step = static_cast<T>(scale);
  for_each_piece(exec, std::ssize(m), flat_piece, std::ssize(m), [&](Index first, Index last) {
    f(last - first, dm.data() + first, m.data() + first, step);
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, sum_of_squares, first_non_finite, clamp_l1_sum, clamp_l1_backward)
