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
    // Zero is held off the estimate: 0 · ∞ would be NaN.
    const V held = (V)_mm512_max_ps(_mm512_set1_ps(1e-37F), (__m512)v);
    const V y = (V)_mm512_rsqrt14_ps((__m512)held);
    V s = held * y;
    s = mul_add(s, mul_add(s * T(-0.5), y, splat<V>(T(0.5))), s);
    const V x = mul_add(s, splat<V>(root), splat<V>(epsilon));
    V inverse = (V)_mm512_rcp14_ps((__m512)x);
    inverse = mul_add(inverse, mul_add(-x, inverse, splat<V>(T(1))), inverse);
    return first * inverse;
  }
#endif
  return first / mul_add(square_root(v), splat<V>(root), splat<V>(epsilon));
}

/// One update of the values in a register. Without `with_m`, beta1 is 0 and m dead; without `decoupled`, keep
/// is 1; without `with_gradient`, the gradient is zero. The result is the same to the bit.
template <bool with_m, bool decoupled = true, bool with_gradient = true, class V, class T>
ROSSBY_INLINE void adam_lane(V& theta, V& m, V& v, V gradient, const AdamConstants<T>& a) {
  V g = a.decay * theta;
  if constexpr (with_gradient) g = mul_add(splat<V>(a.scale), gradient, g);
  V first = g;
  if constexpr (with_m) {
    first = mul_add(splat<V>(a.rest1), g, a.beta1 * m);
    m = first;
  }
  v = mul_add(a.rest2 * g, g, a.beta2 * v);
  const V step = scaled_by_root(first, v, a.root_correction, a.epsilon);
  theta = mul_add(splat<V>(-a.step_size), step, decoupled ? a.keep * theta : theta);
}

}  // namespace rossby::cpu::ROSSBY_ISA
