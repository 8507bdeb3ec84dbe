#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/isa.hpp"

namespace rossby::cpu {

/// The constants of one update of Adam, rounded once from double.
template <class T>
struct AdamConstants {
  T beta1, rest1, beta2, rest2;
  T root_correction;  // 1 / √(1 − beta2^count)
  T step_size;        // lr / (1 − beta1^count)
  T epsilon;
  T scale;  // multiplies the gradient
  T decay;  // added to the gradient times theta
  T keep;   // multiplies theta first: decoupled decay
};

/// Functions of one instruction set.
template <class T>
struct AdamKernels {
  /// Applies the `count` updates of `missed` with gradient zero, then `now` with `gradient` (null: zeros);
  /// `now` may be null. theta and v once through memory, however many updates. m may be null where beta1 = 0.
  /// Bit-equal to `count` + 1 separate calls.
  void (*update)(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>* missed,
                 Index count, const AdamConstants<T>* now);
};

template <class T>
const AdamKernels<T>& adam_kernels(Isa isa);

}  // namespace rossby::cpu
