#pragma once

#include "rossby/kernels/cpu/simd/adam_lane.hpp"

// Hops over updates of Adam with gradient zero (cpu/adam_hops.hpp), a few registers at a time.

namespace rossby::cpu::ROSSBY_ISA {

using Floats = Vec<float, lanes<float>>;

// A mask of the lanes of a register of floats.
#if defined(__AVX512F__)
using Mask = __mmask16;
ROSSBY_INLINE Mask at_most(Floats a, Floats b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LE_OQ);
}
ROSSBY_INLINE Mask equal(Floats a, Floats b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
ROSSBY_INLINE Mask both(Mask a, Mask b) {
  return _kand_mask16(a, b);
}
ROSSBY_INLINE Mask either(Mask a, Mask b) {
  return _kor_mask16(a, b);
}
ROSSBY_INLINE bool none_of(Mask a) {
  return _kortestz_mask16_u8(a, a) != 0;
}
ROSSBY_INLINE bool all_of(Mask a) {
  return _kortestc_mask16_u8(a, a) != 0;
}
ROSSBY_INLINE unsigned bits_of(Mask a) {
  return a;
}
#else
using Mask = decltype(Floats{} < Floats{});
ROSSBY_INLINE Mask at_most(Floats a, Floats b) {
  return a <= b;
}
ROSSBY_INLINE Mask equal(Floats a, Floats b) {
  return a == b;
}
ROSSBY_INLINE Mask both(Mask a, Mask b) {
  return a & b;
}
ROSSBY_INLINE Mask either(Mask a, Mask b) {
  return a | b;
}
ROSSBY_INLINE unsigned bits_of(Mask a) {
#if defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps((__m256)a));
#else
  unsigned bits = 0;
  for (int l = 0; l < lanes<float>; ++l) bits |= static_cast<unsigned>(a[l] & 1) << l;
  return bits;
#endif
}
ROSSBY_INLINE bool none_of(Mask a) {
  return bits_of(a) == 0;
}
ROSSBY_INLINE bool all_of(Mask a) {
  return bits_of(a) == (1U << lanes<float>)-1;
}
#endif

/// Packs the lanes of v named by `bits`; returns how many there are. Writes up to a register.
ROSSBY_INLINE Index compress(float* to, unsigned bits, Floats v) {
#if defined(__AVX512F__)
  store(to, (Floats)_mm512_maskz_compress_ps(static_cast<__mmask16>(bits), (__m512)v));
  return __builtin_popcount(bits);
#else
  Index size = 0;
  for (int l = 0; l < lanes<float>; ++l) {
    to[size] = v[l];
    size += bits >> l & 1;
  }
  return size;
#endif
}

/// Returns v with the lanes named by `bits` read from what compress wrote.
ROSSBY_INLINE Floats expand(const float* from, unsigned bits, Floats v) {
#if defined(__AVX512F__)
  return (Floats)_mm512_mask_expandloadu_ps((__m512)v, static_cast<__mmask16>(bits), from);
#else
  for (int l = 0; l < lanes<float>; ++l)
    if (bits >> l & 1) v[l] = *from++;
  return v;
#endif
}

#define ROSSBY_EACH _Pragma("GCC unroll 8") for (int r = 0; r < count; ++r)
/// y = 1/√v and z = 1 / (√v + epsilon), both within 2⁻¹² or better; NaN if v is not above zero.
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

/// z = 1 / (√v + epsilon) from estimates of 1/√v and of z, with one Newton step each.
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

/// For each lane of some registers, whether a hop holds for it.
template <int count>
struct Holds {
  Mask lanes[count];

  [[nodiscard]] ROSSBY_INLINE bool anywhere() const {
    Mask together = lanes[0];
#pragma GCC unroll 8
    for (int r = 1; r < count; ++r) together = either(together, lanes[r]);
    return !none_of(together);
  }
  [[nodiscard]] ROSSBY_INLINE bool everywhere() const {
    Mask together = lanes[0];
#pragma GCC unroll 8
    for (int r = 1; r < count; ++r) together = both(together, lanes[r]);
    return all_of(together);
  }
};

/// Lanes in which all three values are finite.
ROSSBY_INLINE Mask finite(Floats a, Floats b, Floats c) {
  return equal((a - a) + (b - b) + (c - c), Floats{});
}

/// A hop with decay. The result is undefined in lanes for which it does not hold.
template <int count>
ROSSBY_INLINE Holds<count> hop_decay(Floats* theta, Floats* v, const AdamHop& hop) {
  using V = Floats;
  V grown[count], s[count], x[count], y[count], z[count], p[count];
  Holds<count> holds;
  ROSSBY_EACH s[r] = theta[r] * theta[r];
  ROSSBY_EACH grown[r] = hop.growth * s[r];
  ROSSBY_EACH holds.lanes[r] = at_most(hop.least_v * s[r], v[r]);
  ROSSBY_EACH s[r] = grown[r] + v[r];
  about_inverse_roots<count>(y, z, s, hop.epsilon);
  ROSSBY_EACH holds.lanes[r] = both(holds.lanes[r], at_most(z[r], splat<V>(hop.most)));
  if (!holds.anywhere()) [[unlikely]]
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

/// A hop without decay in the gradient: m alone moves theta.
template <int count, bool with_m>
ROSSBY_INLINE Holds<count> hop_drift(Floats* theta, Floats* m, Floats* v, const AdamHop& hop) {
  using V = Floats;
  Holds<count> holds;
  if constexpr (with_m) {
    V s[count], y[count], z[count];
    // A weight that has never had a gradient has v = m = 0.
    const V least = splat<V>(1e-37F);
    ROSSBY_EACH s[r] = v[r] > least ? v[r] : least;
    about_inverse_roots<count>(y, z, s, hop.epsilon);
    refine_inverse_roots<count>(y, z, s, hop.epsilon);
    ROSSBY_EACH holds.lanes[r] =
        both(either(at_most(z[r], splat<V>(hop.most)), equal(m[r], V{})), finite(theta[r], m[r], v[r]));
    ROSSBY_EACH theta[r] = mul_add(-hop.sum * z[r], m[r], hop.keep * theta[r]);
    ROSSBY_EACH m[r] *= hop.keep_m;
  } else {
    ROSSBY_EACH holds.lanes[r] = finite(theta[r], theta[r], v[r]);
    ROSSBY_EACH theta[r] *= hop.keep;
  }
  ROSSBY_EACH v[r] *= hop.keep_v;
  return holds;
}

template <int count, bool with_m>
ROSSBY_INLINE Holds<count> take_hop(Floats* theta, Floats* m, Floats* v, const AdamHop& hop) {
  if constexpr (!with_m)
    if (hop.decays) return hop_decay<count>(theta, v, hop);
  return hop_drift<count, with_m>(theta, m, v, hop);
}

/// Values that take all their hops together: they and the values left over stay in the first-level cache.
inline constexpr Index hopped_together = 1024;

/// Values for which a hop does not hold, packed, with their state before the hop.
template <bool with_m>
struct Overdue {
  static constexpr Index room = hopped_together + lanes<float>;
  struct Register {
    Index at;
    unsigned bits;  // lanes
  };
  alignas(64) float theta[room];
  alignas(64) float m[with_m ? room : 1];
  alignas(64) float v[room];
  Register from[hopped_together / lanes<float>];
  Index size = 0, registers = 0;

  ROSSBY_INLINE void add(Index at, Mask holds, const float* a, const float* b, const float* c) {
    const unsigned bits = ~bits_of(holds) & ((1U << lanes<float>)-1);
    if (bits == 0) return;
    from[registers++] = {at, bits};
    if constexpr (with_m) compress(m + size, bits, load<Floats>(b + at));
    compress(v + size, bits, load<Floats>(c + at));
    size += compress(theta + size, bits, load<Floats>(a + at));
  }

  /// Pads the last register; returns its end.
  ROSSBY_INLINE Index pad() {
    const Index end = (size + lanes<float> - 1) / lanes<float> * lanes<float>;
    for (Index k = size; k < end; ++k) {
      theta[k] = v[k] = 1;
      if constexpr (with_m) m[k] = 0;
    }
    return end;
  }

  /// Writes the values back to their places.
  ROSSBY_INLINE void put_back(float* to_theta, float* to_m, float* to_v) const {
    Index next = 0;
    for (Index r = 0; r < registers; ++r) {
      const auto [at, bits] = from[r];
      store(to_theta + at, expand(theta + next, bits, load<Floats>(to_theta + at)));
      store(to_v + at, expand(v + next, bits, load<Floats>(to_v + at)));
      if constexpr (with_m) store(to_m + at, expand(m + next, bits, load<Floats>(to_m + at)));
      next += __builtin_popcount(bits);
    }
  }
};

/// A hop of whole registers of values, from `begin` up to `end`, `count` at a time.
template <int count, bool with_m>
ROSSBY_INLINE void hop_registers(float* theta, float* m, float* v, Index begin, const AdamHop& hop,
                                 bool from_memory, Overdue<with_m>& overdue) {
  Floats a[count], b[count], c[count];
  ROSSBY_EACH {
    const Index k = begin + r * lanes<float>;
    a[r] = load<Floats>(theta + k);
    b[r] = with_m ? load<Floats>(m + k) : Floats{};
    c[r] = load<Floats>(v + k);
    // Prefetches, because much is computed before the loop reaches these data.
    if constexpr (count > 1)
      if (from_memory) {
        __builtin_prefetch(theta + k + 4 * count * lanes<float>);
        __builtin_prefetch(v + k + 4 * count * lanes<float>);
        if (with_m) __builtin_prefetch(m + k + 4 * count * lanes<float>);
      }
  }
  const Holds<count> holds = take_hop<count, with_m>(a, b, c, hop);
  if (!holds.everywhere()) [[unlikely]] {
    ROSSBY_EACH overdue.add(begin + r * lanes<float>, holds.lanes[r], theta, m, v);
  }
  ROSSBY_EACH {
    const Index k = begin + r * lanes<float>;
    store(theta + k, a[r]);
    if (with_m) store(m + k, b[r]);
    store(v + k, c[r]);
  }
}

/// A hop over many values.
template <bool with_m>
ROSSBY_INLINE void hop(float* theta, float* m, float* v, Index begin, Index end, const AdamHop& hop,
                       bool from_memory, Overdue<with_m>& overdue) {
  constexpr int most = register_bytes == 64 ? 6 : 2;
  Index k = begin;
  for (; k + most * lanes<float> <= end; k += most * lanes<float>)
    hop_registers<most, with_m>(theta, m, v, k, hop, from_memory, overdue);
  for (; k < end; k += lanes<float>) hop_registers<1, with_m>(theta, m, v, k, hop, from_memory, overdue);
}
#undef ROSSBY_EACH

}  // namespace rossby::cpu::ROSSBY_ISA
