#pragma once

#include "rossby/kernels/cpu/simd/adam_lane.hpp"

// Hops over updates of Adam with gradient zero (cpu/adam_hops.hpp), a few registers at a time.

namespace rossby::cpu::ROSSBY_ISA {

/// All lanes of the result of a comparison hold.
template <class M>
ROSSBY_INLINE bool all_hold(M mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(M) == 64) return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) == 0xFFFF;
#endif
  bool all = true;
  for (int l = 0; l < static_cast<int>(sizeof(M) / sizeof(mask[0])); ++l) all = all && mask[l];
  return all;
}

#define ROSSBY_EACH _Pragma("GCC unroll 8") for (int r = 0; r < count; ++r)
/// y = 1/√v and z = 1 / (√v + epsilon), both within 2⁻¹² or better; NaN where v is not above zero.
template <int count, class V>
ROSSBY_INLINE void about_inverse_roots(V* y, V* z, const V* v, float epsilon) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    ROSSBY_EACH y[r] = (V)_mm512_rsqrt14_ps((__m512)v[r]);
    ROSSBY_EACH z[r] = (V)_mm512_rcp14_ps((__m512)mul_add(v[r], y[r], splat<V>(epsilon)));
    return;
  }
#endif
  for (int r = 0; r < count; ++r) {
    y[r] = 1.0F / square_root(v[r]);
    z[r] = 1.0F / mul_add(v[r], y[r], splat<V>(epsilon));
  }
}

/// z = 1 / (√v + epsilon) from estimates of 1/√v and of itself: one step of Newton each.
template <int count, class V>
ROSSBY_INLINE void refine_inverse_roots(const V* y, V* z, const V* v, float epsilon) {
  V s[count], half[count];
  ROSSBY_EACH s[r] = v[r] * y[r];
  ROSSBY_EACH half[r] = mul_add(s[r] * -0.5F, y[r], splat<V>(0.5F));
  ROSSBY_EACH s[r] = mul_add(s[r], half[r], s[r]) + epsilon;
  ROSSBY_EACH s[r] = mul_add(-s[r], z[r], splat<V>(1.0F));
  ROSSBY_EACH z[r] = mul_add(z[r], s[r], z[r]);
}

/// Σ c[i] xⁱ
template <int count, int terms, class V>
ROSSBY_INLINE void polynomial(V* sum, const V* x, const float (&c)[terms]) {
  ROSSBY_EACH sum[r] = splat<V>(c[terms - 1]);
#pragma GCC unroll 8
  for (int i = terms - 2; i >= 0; --i) ROSSBY_EACH sum[r] = mul_add(sum[r], x[r], splat<V>(c[i]));
}

/// Of each lane of some registers: whether a hop holds there.
template <int count, class V>
struct Holds {
  decltype(V{} < V{}) lanes[count];

  [[nodiscard]] ROSSBY_INLINE bool all() const {
    auto together = lanes[0];
#pragma GCC unroll 8
    for (int r = 1; r < count; ++r) together &= lanes[r];
    return all_hold(together);
  }
  [[nodiscard]] bool any() const {
    bool any = false;
    for (int r = 0; r < count; ++r) any = any || !all_hold(~lanes[r]);
    return any;
  }
};

/// Lanes that are neither infinite nor NaN in any of the three.
template <class V>
ROSSBY_INLINE auto finite(V a, V b, V c) {
  return (a - a) + (b - b) + (c - c) == V{};
}

/// A hop with decay. Where it does not hold for some lane: without `forced` nothing is changed, with it those
/// lanes are left undefined.
template <int count, bool forced, class V>
ROSSBY_INLINE Holds<count, V> hop_decay(V* theta, V* v, const AdamHop& hop) {
  V grown[count], s[count], x[count], y[count], z[count], p[count];
  Holds<count, V> holds;
  ROSSBY_EACH s[r] = theta[r] * theta[r];
  ROSSBY_EACH grown[r] = hop.growth * s[r];
  ROSSBY_EACH holds.lanes[r] = hop.least_v * s[r] <= v[r];
  ROSSBY_EACH s[r] = mul_add(splat<V>(hop.growth), s[r], v[r]);
  about_inverse_roots<count>(y, z, s, hop.epsilon);
  ROSSBY_EACH holds.lanes[r] &= z[r] <= splat<V>(hop.most);
  if (!forced && !holds.all()) [[unlikely]]
    return holds;
  ROSSBY_EACH x[r] = hop.sum * z[r];
  polynomial<count>(p, x, hop.mean);
  ROSSBY_EACH p[r] = mul_add(p[r], x[r], splat<V>(1.0F));
  ROSSBY_EACH s[r] = mul_add(grown[r], p[r], v[r]);
  refine_inverse_roots<count>(y, z, s, hop.epsilon);
  ROSSBY_EACH x[r] = hop.sum * z[r];
  polynomial<count>(p, x, hop.end);
  ROSSBY_EACH p[r] = mul_add(p[r], x[r], splat<V>(hop.all));
  ROSSBY_EACH v[r] = hop.keep_v * mul_add(grown[r], p[r], v[r]);
  polynomial<count>(p, x, hop.product);
  ROSSBY_EACH p[r] = mul_add(p[r], x[r], splat<V>(-1.0F));
  ROSSBY_EACH theta[r] = mul_add(theta[r] * x[r], p[r], theta[r]);
  return holds;
}

/// The same of a hop without decay in the gradient: m alone moves theta.
template <int count, bool forced, bool with_m, class V>
ROSSBY_INLINE Holds<count, V> hop_drift(V* theta, V* m, V* v, const AdamHop& hop) {
  Holds<count, V> holds;
  if constexpr (with_m) {
    V s[count], y[count], z[count];
    // A weight that has never had a gradient has v = m = 0.
    const V least = splat<V>(1e-37F);
    ROSSBY_EACH s[r] = v[r] > least ? v[r] : least;
    about_inverse_roots<count>(y, z, s, hop.epsilon);
    refine_inverse_roots<count>(y, z, s, hop.epsilon);
    ROSSBY_EACH holds.lanes[r] =
        ((z[r] <= splat<V>(hop.most)) | (m[r] == V{})) & finite(theta[r], m[r], v[r]);
    if (!forced && !holds.all()) [[unlikely]]
      return holds;
    ROSSBY_EACH theta[r] = mul_add(-hop.sum * z[r], m[r], hop.keep * theta[r]);
    ROSSBY_EACH m[r] *= hop.keep_m;
  } else {
    ROSSBY_EACH holds.lanes[r] = finite(theta[r], theta[r], v[r]);
    if (!forced && !holds.all()) [[unlikely]]
      return holds;
    ROSSBY_EACH theta[r] *= hop.keep;
  }
  ROSSBY_EACH v[r] *= hop.keep_v;
  return holds;
}

template <int count, bool with_m, bool forced = false, class V>
ROSSBY_INLINE Holds<count, V> take_hop(V* theta, V* m, V* v, const AdamHop& hop) {
  if constexpr (!with_m)
    if (hop.decays) return hop_decay<count, forced>(theta, v, hop);
  return hop_drift<count, forced, with_m>(theta, m, v, hop);
}
#undef ROSSBY_EACH

}  // namespace rossby::cpu::ROSSBY_ISA
