#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Functions of one instruction set over `size` contiguous values; no two arrays overlap.
template <class T>
struct GruKernels {
  /// r = sigmoid(r) in place, y = r ∘ h.
  void (*reset)(Index size, T* r, T* y, const T* h);
  /// da += dy∘h∘r∘(1 − r); dh += dy∘r, if it is not null.
  void (*reset_backward)(Index size, T* da, T* dh, const T* dy, const T* r, const T* h);
  /// u = sigmoid(u) and c = tanh(c) in place, y = u∘h + (1 − u)∘c.
  void (*output)(Index size, T* u, T* c, T* y, const T* h);
  /// da_u += dy∘(h − c)∘u∘(1 − u); da_c += dy∘(1 − u)∘(1 − c²); dh += dy∘u, if it is not null.
  void (*output_backward)(Index size, T* da_u, T* da_c, T* dh, const T* dy, const T* u, const T* c,
                          const T* h);
};

}  // namespace rossby::cpu
