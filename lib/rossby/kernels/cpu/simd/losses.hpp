#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Functions of one instruction set over `size` contiguous values; sums are taken in double. If target x is
/// NaN, prediction p does not count.
template <class T>
struct LossKernels {
  /// Σ (p − x)², Σ |p − x|.
  double (*masked_squared_sum)(Index size, const T* p, const float* x);
  double (*masked_absolute_sum)(Index size, const T* p, const float* x);
  /// to += factor·(p − x), to += factor·sign(p − x).
  void (*masked_squared_backward)(Index size, T* to, const T* p, const float* x, T factor);
  void (*masked_absolute_backward)(Index size, T* to, const T* p, const float* x, T factor);
  /// Σ (p − x)², and to = factor·(p − x), or 0 if x is NaN.
  double (*masked_squared_gradient)(Index size, T* to, const T* p, const float* x, T factor);
  double (*squared_difference_sum)(Index size, const T* a, const T* b);
  /// Σ (a − b)²; and da = or += factor·(a − b), db = or −= the same; either may be null.
  double (*squared_difference_gradients)(Index size, T* da, bool add_a, T* db, bool add_b, const T* a,
                                         const T* b, T factor);
  double (*sum_of_squares)(Index size, const T* x);
  /// Σ a·b.
  double (*dot)(Index size, const T* a, const T* b);
  /// Σ 0·x: 0 if all values are finite, else NaN.
  double (*sum_of_nothing)(Index size, const T* x);
  /// Σ clamp(m, 0, 1); dm += step if 0 < m < 1.
  double (*clamp_sum)(Index size, const T* m);
  void (*clamp_backward)(Index size, T* dm, const T* m, T step);
};

}  // namespace rossby::cpu
