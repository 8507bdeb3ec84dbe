#pragma once

#include "rossby/kernels/cpu/simd/adam_lane.hpp"

// Hops over updates of Adam with gradient zero (cpu/adam_hops.hpp), a few registers at a time.

namespace rossby::cpu::ROSSBY_ISA {

/// Any lane of the result of a comparison holds.
template <class M>
ROSSBY_INLINE bool any_holds(M mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(M) == 64) return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#endif
  bool any = false;
  for (int l = 0; l < static_cast<int>(sizeof(M) / sizeof(mask[0])); ++l) any = any || mask[l];
  return any;
}

/// The lanes of v where `mask` holds, side by side; returns how many there are. Writes up to a register.
template <class M, class V>
ROSSBY_INLINE Index compress(float* to, M mask, V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    const __mmask16 bits = _mm512_movepi32_mask((__m512i)mask);
    store(to, (V)_mm512_maskz_compress_ps(bits, (__m512)v));
    return __builtin_popcount(bits);
  }
#endif
  Index size = 0;
  for (int l = 0; l < lanes<float>; ++l) {
    to[size] = v[l];
    size += mask[l] ? 1 : 0;
  }
  return size;
}

/// v with its lanes where `mask` holds taken from what compress wrote.
template <class M, class V>
ROSSBY_INLINE V expand(const float* from, M mask, V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return (V)_mm512_mask_expandloadu_ps((__m512)v, _mm512_movepi32_mask((__m512i)mask), from);
#endif
  for (int l = 0; l < lanes<float>; ++l)
    if (mask[l]) v[l] = *from++;
  return v;
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

  [[nodiscard]] ROSSBY_INLINE bool any() const {
    auto together = lanes[0];
#pragma GCC unroll 8
    for (int r = 1; r < count; ++r) together |= lanes[r];
    return any_holds(together);
  }
};

/// Lanes that are neither infinite nor NaN in any of the three.
template <class V>
ROSSBY_INLINE auto finite(V a, V b, V c) {
  return (a - a) + (b - b) + (c - c) == V{};
}

/// A hop with decay. Lanes for which it does not hold are left undefined.
template <int count, class V>
ROSSBY_INLINE Holds<count, V> hop_decay(V* theta, V* v, const AdamHop& hop) {
  V grown[count], s[count], x[count], y[count], z[count], p[count];
  Holds<count, V> holds;
  ROSSBY_EACH s[r] = theta[r] * theta[r];
  ROSSBY_EACH grown[r] = hop.growth * s[r];
  ROSSBY_EACH holds.lanes[r] = hop.least_v * s[r] <= v[r];
  ROSSBY_EACH s[r] = mul_add(splat<V>(hop.growth), s[r], v[r]);
  about_inverse_roots<count>(y, z, s, hop.epsilon);
  ROSSBY_EACH holds.lanes[r] &= z[r] <= splat<V>(hop.most);
  if (!holds.any()) [[unlikely]]
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
template <int count, bool with_m, class V>
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
    ROSSBY_EACH theta[r] = mul_add(-hop.sum * z[r], m[r], hop.keep * theta[r]);
    ROSSBY_EACH m[r] *= hop.keep_m;
  } else {
    ROSSBY_EACH holds.lanes[r] = finite(theta[r], theta[r], v[r]);
    ROSSBY_EACH theta[r] *= hop.keep;
  }
  ROSSBY_EACH v[r] *= hop.keep_v;
  return holds;
}

template <int count, bool with_m, class V>
ROSSBY_INLINE Holds<count, V> take_hop(V* theta, V* m, V* v, const AdamHop& hop) {
  if constexpr (!with_m)
    if (hop.decays) return hop_decay<count>(theta, v, hop);
  return hop_drift<count, with_m>(theta, m, v, hop);
}

/// Values that take all their hops before others do: they and those that are overdue stay in the first-level
/// cache.
inline constexpr Index hopped_together = 1024;

/// Values for which a hop does not hold, side by side, as they were before it.
template <bool with_m, class T>
struct Overdue {
  using V = Vec<T, lanes<T>>;
  using Mask = decltype(V{} < V{});
  static constexpr Index room = hopped_together + lanes<T>;
  alignas(64) T theta[room];
  alignas(64) T m[with_m ? room : 1];
  alignas(64) T v[room];
  Mask fails[hopped_together / lanes<T>];  // of each register
  Index size = 0, registers = 0;

  ROSSBY_INLINE void add(Mask mask, V a, V b, V c) {
    fails[registers++] = mask;
    if (!any_holds(mask)) return;
    if constexpr (with_m) compress(m + size, mask, b);
    compress(v + size, mask, c);
    size += compress(theta + size, mask, a);
  }

  /// Fills the last register; returns its end.
  ROSSBY_INLINE Index pad() {
    const Index end = (size + lanes<T> - 1) / lanes<T> * lanes<T>;
    for (Index k = size; k < end; ++k) {
      theta[k] = v[k] = 1;
      if constexpr (with_m) m[k] = 0;
    }
    return end;
  }

  /// To where they came from: `first` is the first value that could have been here.
  ROSSBY_INLINE void put_back(T* to_theta, T* to_m, T* to_v, Index first) const {
    Index next = 0;
    for (Index r = 0; r < registers; ++r) {
      if (!any_holds(fails[r])) continue;
      const Index k = first + r * lanes<T>;
      store(to_theta + k, expand(theta + next, fails[r], load<V>(to_theta + k)));
      store(to_v + k, expand(v + next, fails[r], load<V>(to_v + k)));
      if constexpr (with_m) store(to_m + k, expand(m + next, fails[r], load<V>(to_m + k)));
      for (int l = 0; l < lanes<T>; ++l) next += fails[r][l] ? 1 : 0;
    }
  }
};

/// A hop of whole registers of values, from `begin` up to `end`, `count` at a time.
template <int count, bool with_m, class T>
ROSSBY_INLINE void hop_registers(T* theta, T* m, T* v, Index begin, const AdamHop& hop, bool from_memory,
                                 Overdue<with_m, T>& overdue) {
  using V = Vec<T, lanes<T>>;
  V a[count], b[count], c[count], a0[count], b0[count], c0[count];
  ROSSBY_EACH {
    const Index k = begin + r * lanes<T>;
    a0[r] = a[r] = load<V>(theta + k);
    b0[r] = b[r] = with_m ? load<V>(m + k) : V{};
    c0[r] = c[r] = load<V>(v + k);
    // Much is computed before the loop comes to what lies there.
    if constexpr (count > 1)
      if (from_memory) {
        __builtin_prefetch(theta + k + 4 * count * lanes<T>);
        __builtin_prefetch(v + k + 4 * count * lanes<T>);
        if (with_m) __builtin_prefetch(m + k + 4 * count * lanes<T>);
      }
  }
  const auto holds = take_hop<count, with_m>(a, b, c, hop);
  ROSSBY_EACH {
    const Index k = begin + r * lanes<T>;
    overdue.add(~holds.lanes[r], a0[r], b0[r], c0[r]);
    store(theta + k, a[r]);
    if (with_m) store(m + k, b[r]);
    store(v + k, c[r]);
  }
}

/// The same of many.
template <bool with_m, class T>
ROSSBY_INLINE void hop(T* theta, T* m, T* v, Index begin, Index end, const AdamHop& hop, bool from_memory,
                       Overdue<with_m, T>& overdue) {
  constexpr int most = register_bytes == 64 ? 4 : 2;
  Index k = begin;
  for (; k + most * lanes<T> <= end; k += most * lanes<T>)
    hop_registers<most, with_m>(theta, m, v, k, hop, from_memory, overdue);
  for (; k < end; k += lanes<T>) hop_registers<1, with_m>(theta, m, v, k, hop, from_memory, overdue);
}
#undef ROSSBY_EACH

}  // namespace rossby::cpu::ROSSBY_ISA
