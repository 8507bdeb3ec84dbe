#pragma once

#include <cstdint>

#include "rossby/kernels/cpu/simd/bf16.hpp"

// Sizes of the dense kernels' register blocks, and loads at the ends of rows.

namespace rossby::cpu::ROSSBY_ISA {

/// Vectors per strip of columns, and accumulators that fit the registers together with their operands.
inline constexpr int strip_vectors = 3;
inline constexpr int accumulators = register_bytes == 64 ? 24 : 12;

/// Lines of W and its moments in flight while rows are computed. With fewer, the lines of a few rows were
/// requested too late (narrow widths, with little to compute).
inline constexpr Index dense_lines_ahead = 192;

/// W stored as S, in strips. In bf16 the two vectors of a strip are its even and its odd columns.
template <class S>
struct Strip {
  static constexpr bool paired = sizeof(S) < sizeof(Arithmetic<S>);
  static constexpr int vectors = paired ? 2 : strip_vectors;
  static constexpr Index columns = vectors * lanes<Arithmetic<S>>;
  /// Rows of a register block with a strip side by side.
  static constexpr int block = paired ? (register_bytes == 64 ? 8 : 4) : accumulators / strip_vectors;
  /// Cache lines per row, and values from one to the next: each is prefetched.
  static constexpr int lines = paired ? 1 : strip_vectors;
  static constexpr Index line_values = paired ? columns : lanes<Arithmetic<S>>;
};

#define ROSSBY_LAMBDA_INLINE __attribute__((always_inline))

/// Copies the first `count` of `size` values and sets the others to zero. The last strip of a row goes
/// through a copy, so that loops know whole strips only.
template <class A>
__attribute__((noinline)) void pad(A* to, const A* from, Index count, Index size) {
  for (Index l = 0; l < count; ++l) to[l] = from[l];
  for (Index l = count; l < size; ++l) to[l] = A{};
}

/// v if `flag` is not 0, else 0.
template <class V>
ROSSBY_INLINE V keep_flagged(V v, const std::uint8_t* flag) {
  using Mask = decltype(v < v);
  const auto bytes = load<Vec<std::uint8_t, static_cast<int>(sizeof(V) / sizeof(v[0]))>>(flag);
  return __builtin_convertvector(bytes, Mask) != 0 ? v : V{};
}

/// Vector number `part` of a strip.
template <class V, class S>
ROSSBY_INLINE V strip_vector(const S* from, int part) {
  if constexpr (Strip<S>::paired)
    return part == 0 ? even_values<V>(load_words(from)) : odd_values<V>(load_words(from));
  else
    return load<V>(from + part * static_cast<int>(sizeof(V) / sizeof(S)));
}

/// v if the flag of its column is not 0, else 0; as strip_vector.
template <class S, class V>
ROSSBY_INLINE V keep_flagged_in_strip(V v, const std::uint8_t* flag, int part) {
  constexpr int all = sizeof(V) / sizeof(Arithmetic<S>);
  if constexpr (Strip<S>::paired) {
    const auto pairs = load<Vec<std::uint16_t, all>>(flag);
    const Vec<std::uint16_t, all> mine = part == 0 ? pairs & 0xFF : pairs >> 8;
    using Mask = decltype(v < v);
    return __builtin_convertvector(mine, Mask) != 0 ? v : V{};
  } else {
    return keep_flagged(v, flag + part * all);
  }
}

/// d if m lies strictly between 0 and 1, else 0.
template <class V>
ROSSBY_INLINE V keep_inside01(V d, V m) {
  const V one = splat<V>(decltype(m[0] + m[0])(1));
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(m[0]) == 4) {
    const __mmask16 low = _mm512_cmp_ps_mask((__m512)m, _mm512_setzero_ps(), _CMP_GT_OQ);
    return (V)_mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(low, (__m512)m, (__m512)one, _CMP_LT_OQ),
                                  (__m512)d);
  }
  if constexpr (sizeof(V) == 64 && sizeof(m[0]) == 8) {
    const __mmask8 low = _mm512_cmp_pd_mask((__m512d)m, _mm512_setzero_pd(), _CMP_GT_OQ);
    return (V)_mm512_maskz_mov_pd(_mm512_mask_cmp_pd_mask(low, (__m512d)m, (__m512d)one, _CMP_LT_OQ),
                                  (__m512d)d);
  }
#endif
  const V high = m < one ? d : V{};
  return m > V{} ? high : V{};
}

/// out (width) = effective weights of `count` values, followed by zeros up to a whole register.
template <bool clamped, class S, class T = Arithmetic<S>>
ROSSBY_INLINE void effective_row(T* out, const S* weight, const std::uint8_t* pattern, Index count,
                                 Index width) {
  using V = Vec<T, lanes<T>>;
  const auto some = [&](T* to, const S* from, const std::uint8_t* flag) ROSSBY_LAMBDA_INLINE {
    V w = load<V>(from);
    if constexpr (clamped) w = clamp01(w);
    if (flag) w = keep_flagged(w, flag);
    store(to, w);
  };
  Index j = 0;
  for (; j + lanes<T> <= count; j += lanes<T>) some(out + j, weight + j, pattern ? pattern + j : nullptr);
  if (j == width) return;
  S rest[lanes<T>];
  std::uint8_t flags[lanes<T>];
  pad(rest, weight + j, count - j, lanes<T>);
  if (pattern) pad(flags, pattern + j, count - j, lanes<T>);
  some(out + j, rest, pattern ? flags : nullptr);
}

/// The same for one strip, in the order of its vectors.
template <bool clamped, class S, class T = Arithmetic<S>>
ROSSBY_INLINE void effective_strip(T* out, const S* weight, const std::uint8_t* pattern) {
  using V = Vec<T, lanes<T>>;
#pragma GCC unroll 3
  for (int q = 0; q < Strip<S>::vectors; ++q) {
    V w = strip_vector<V>(weight, q);
    if constexpr (clamped) w = clamp01(w);
    if (pattern) w = keep_flagged_in_strip<S>(w, pattern, q);
    store(out + q * lanes<T>, w);
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
