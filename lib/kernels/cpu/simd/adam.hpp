#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/adam_constants.hpp"
#include "rossby/kernels/isa.hpp"

namespace rossby::cpu {

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
