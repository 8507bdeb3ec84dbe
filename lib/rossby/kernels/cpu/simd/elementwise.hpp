#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Functions of one instruction set over `size` contiguous values. An output may be one of the inputs.
template <class T>
struct ElementwiseKernels {
  /// y = f(x). In float, tanh is within 2 units in the last place of the true value, and sigmoid within 3 if
  /// it is a normal number (below −88 it is 0). In double both use the C library.
  void (*tanh)(Index size, T* y, const T* x);
  void (*sigmoid)(Index size, T* y, const T* x);
  void (*relu)(Index size, T* y, const T* x);
  /// dx += dy ∘ f'(x) in terms of y = f(x).
  void (*tanh_backward)(Index size, T* dx, const T* y, const T* dy);
  void (*sigmoid_backward)(Index size, T* dx, const T* y, const T* dy);
  void (*relu_backward)(Index size, T* dx, const T* y, const T* dy);
  /// y = a + b, y = alpha·x, y += alpha·x, y = a ∘ b, y += a ∘ b.
  void (*add)(Index size, T* y, const T* a, const T* b);
  void (*scale)(Index size, T* y, const T* x, T alpha);
  void (*accumulate)(Index size, T* y, const T* x, T alpha);
  void (*multiply)(Index size, T* y, const T* a, const T* b);
  void (*multiply_accumulate)(Index size, T* y, const T* a, const T* b);
};

}  // namespace rossby::cpu
