#pragma once

#include "rossby/kernels/cpu/simd/adam.hpp"
#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// first / (√v · root + epsilon) of `count` registers, interleaved instruction by instruction: each
/// instruction waits for the one before, and a processor looks only a little ahead. Floats of AVX-512 use the
/// 14-bit estimates of 1/√ and 1/x, which the architecture defines to the bit, and one Newton step each
/// (relative error about 2⁻²²): a fifth of the time of a root and a division. `coarse`: only the estimates
/// (about 2⁻¹³), for values that are rounded to 8 bits afterwards.
template <int count, bool coarse = false, class V, class T>
ROSSBY_INLINE void scaled_by_roots(V* first, const V* v, T root, T epsilon) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(T) == 4) {
    V s[count], y[count];
#define ROSSBY_EACH _Pragma("GCC unroll 8") for (int r = 0; r < count; ++r)
    // Keeps the estimate away from zero, because 0 · ∞ would be NaN.
    ROSSBY_EACH s[r] = (V)_mm512_max_ps(_mm512_set1_ps(1e-37F), (__m512)v[r]);
    ROSSBY_EACH y[r] = (V)_mm512_rsqrt14_ps((__m512)s[r]);
    ROSSBY_EACH s[r] *= y[r];
    if constexpr (coarse) {
      ROSSBY_EACH s[r] = mul_add(s[r], splat<V>(root), splat<V>(epsilon));
      ROSSBY_EACH first[r] *= (V)_mm512_rcp14_ps((__m512)s[r]);
      return;
    }
    ROSSBY_EACH y[r] = mul_add(s[r] * T(-0.5), y[r], splat<V>(T(0.5)));
    ROSSBY_EACH s[r] = mul_add(s[r], y[r], s[r]);
    ROSSBY_EACH s[r] = mul_add(s[r], splat<V>(root), splat<V>(epsilon));
    ROSSBY_EACH y[r] = (V)_mm512_rcp14_ps((__m512)s[r]);
    ROSSBY_EACH s[r] = mul_add(-s[r], y[r], splat<V>(T(1)));
    ROSSBY_EACH y[r] = mul_add(y[r], s[r], y[r]);
    ROSSBY_EACH first[r] *= y[r];
#undef ROSSBY_EACH
    return;
  }
#endif
  for (int r = 0; r < count; ++r)
    first[r] = first[r] / mul_add(square_root(v[r]), splat<V>(root), splat<V>(epsilon));
}

/// One update of the values in `count` registers. Without `with_m`, beta1 is 0 and m is unused; without
/// `decoupled`, keep is 1; without `with_gradient`, the gradient is zero.
/// Results do not depend on these flags, to the bit. `coarse`: as in scaled_by_roots.
template <int count, bool with_m, bool decoupled = true, bool with_gradient = true, bool coarse = false,
          class V, class T>
ROSSBY_INLINE void adam_lanes(V* theta, V* m, V* v, const V* gradient, const AdamConstants<T>& a) {
  V first[count];
#pragma GCC unroll 8
  for (int r = 0; r < count; ++r) {
    V g = a.decay * theta[r];
    if constexpr (with_gradient) g = mul_add(splat<V>(a.scale), gradient[r], g);
    v[r] = mul_add(a.rest2 * g, g, a.beta2 * v[r]);
    if constexpr (with_m) m[r] = mul_add(splat<V>(a.rest1), g, a.beta1 * m[r]);
    first[r] = with_m ? m[r] : g;
  }
  scaled_by_roots<count, coarse>(first, v, a.root_correction, a.epsilon);
#pragma GCC unroll 8
  for (int r = 0; r < count; ++r)
    theta[r] = mul_add(splat<V>(-a.step_size), first[r], decoupled ? a.keep * theta[r] : theta[r]);
}

}  // namespace rossby::cpu::ROSSBY_ISA
