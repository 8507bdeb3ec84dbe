#pragma once

#include "rossby/kernels/cpu/simd/adam.hpp"
#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// first / (√v · root + epsilon). Floats of AVX-512 take the 14-bit estimates of 1/√ and 1/x, which the
/// architecture defines to the bit, and one Newton step each (relative error about 2⁻²²): a fifth of the time
/// of a root and a division.
template <class V, class T>
ROSSBY_INLINE V scaled_by_root(V first, V v, T root, T epsilon) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(T) == 4) {
    // Zero and infinity are held off the estimate: 0 · ∞ would be NaN. Half of the least is no denormal yet,
    // which would cost a hundred cycles.
    const V held = (V)_mm512_min_ps(_mm512_set1_ps(3e38F), _mm512_max_ps(_mm512_set1_ps(1e-37F), (__m512)v));
    V y = (V)_mm512_rsqrt14_ps((__m512)held);
    y = y * (T(1.5) - T(0.5) * held * y * y);
    const V x = v * y * root + epsilon;
    V inverse = (V)_mm512_rcp14_ps((__m512)x);
    inverse = inverse * (T(2) - x * inverse);
    return first * inverse;
  }
#endif
  return first / (square_root(v) * root + epsilon);
}

/// One update of the values in a register; `m` is dead where `with_m` is false.
template <bool with_m, class V, class T>
ROSSBY_INLINE void adam_lane(V& theta, V& m, V& v, V gradient, const AdamConstants<T>& a) {
  const V g = a.scale * gradient + a.decay * theta;
  V first = a.rest1 * g;
  if constexpr (with_m) {
    first += a.beta1 * m;
    m = first;
  }
  v = a.beta2 * v + a.rest2 * g * g;
  theta = a.keep * theta - a.step_size * scaled_by_root(first, v, a.root_correction, a.epsilon);
}

}  // namespace rossby::cpu::ROSSBY_ISA
