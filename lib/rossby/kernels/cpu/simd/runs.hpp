#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

// Loops over contiguous values, a register at a time.

namespace rossby::cpu::ROSSBY_ISA {

#if defined(__AVX2__) && !defined(__AVX512VL__)
/// Mask of the first `count` of eight lanes.
ROSSBY_INLINE __m256i first_of_eight(Index count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
ROSSBY_INLINE __m256i first_of_four(Index count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
/// The same for registers half as wide.
ROSSBY_INLINE __m128i first_of_four_floats(Index count) {
  return _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(count)), _mm_setr_epi32(0, 1, 2, 3));
}
ROSSBY_INLINE __m128i first_of_two(Index count) {
  return _mm_cmpgt_epi64(_mm_set1_epi64x(count), _mm_set_epi64x(1, 0));
}
#endif

/// True if the load below is one instruction.
inline constexpr bool masked_loads = register_bytes > 16;

/// Loads the first `count` lanes, fewer than all; the others are 0. Memory after them is not read.
template <class V, class T>
ROSSBY_INLINE V load_first(const T* from, Index count) {
#if defined(__AVX512VL__)
  const unsigned some = (1U << count) - 1;
  if constexpr (sizeof(T) == 4 && sizeof(V) == 64)
    return (V)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(some), from);
  if constexpr (sizeof(T) == 8 && sizeof(V) == 64)
    return (V)_mm512_maskz_loadu_epi64(static_cast<__mmask8>(some), from);
  if constexpr (sizeof(T) == 4 && sizeof(V) == 32)
    return (V)_mm256_maskz_loadu_epi32(static_cast<__mmask8>(some), from);
  if constexpr (sizeof(T) == 8 && sizeof(V) == 32)
    return (V)_mm256_maskz_loadu_epi64(static_cast<__mmask8>(some), from);
  if constexpr (sizeof(T) == 4 && sizeof(V) == 16)
    return (V)_mm_maskz_loadu_epi32(static_cast<__mmask8>(some), from);
  if constexpr (sizeof(T) == 8 && sizeof(V) == 16)
    return (V)_mm_maskz_loadu_epi64(static_cast<__mmask8>(some), from);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && sizeof(V) == 32)
    return (V)_mm256_maskload_epi32(reinterpret_cast<const int*>(from), first_of_eight(count));
  if constexpr (sizeof(T) == 8 && sizeof(V) == 32)
    return (V)_mm256_maskload_epi64(reinterpret_cast<const long long*>(from), first_of_four(count));
  if constexpr (sizeof(T) == 4 && sizeof(V) == 16)
    return (V)_mm_maskload_epi32(reinterpret_cast<const int*>(from), first_of_four_floats(count));
  if constexpr (sizeof(T) == 8 && sizeof(V) == 16)
    return (V)_mm_maskload_epi64(reinterpret_cast<const long long*>(from), first_of_two(count));
#endif
  V v{};
  for (Index q = 0; q < count; ++q) v[static_cast<int>(q)] = from[q];
  return v;
}

/// Stores the first `count` lanes, fewer than all. Stores halves instead of using a mask: a load soon after
/// of the memory behind, such as the next row, would wait until a masked store is in the cache, and AMD's
/// processors take tens of cycles for those of AVX2.
template <class V, class T>
ROSSBY_INLINE void store_first(T* to, V v, Index count) {
  constexpr int half = static_cast<int>(sizeof(V) / sizeof(T)) / 2;
  if constexpr (half > 0) {
    Vec<T, half> low, high;
    __builtin_memcpy(&low, &v, sizeof(low));
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(low), sizeof(high));
    if ((count & half) != 0) {
      store(to, low);
      to += half;
      low = high;
    }
    store_first(to, low, count & (half - 1));
  }
}

/// y[k] = f(y[k], x[k]…), where f takes and returns registers; y is not read if f ignores it.
template <class T, class F, class... X>
ROSSBY_INLINE void map_registers(Index size, const F& f, T* y, const X*... x) {
  constexpr int count = lanes<T>;
  using V = Vec<T, count>;
  Index k = 0;
#pragma GCC unroll 4
  for (; k + count <= size; k += count) store(y + k, f(load<V>(y + k), load<Vec<X, count>>(x + k)...));
  if (k < size)
    store_first(y + k, f(load_first<V>(y + k, size - k), load_first<Vec<X, count>>(x + k, size - k)...),
                size - k);
}

/// A register's place in arrays: all of its values from k on, or the first `count`.
template <bool all>
struct Place {
  Index k;
  Index count;

  template <class V, class T>
  ROSSBY_INLINE V get(const T* from) const {
    if constexpr (all)
      return load<V>(from + k);
    else
      return load_first<V>(from + k, count);
  }
  template <class V, class T>
  ROSSBY_INLINE void put(T* to, V v) const {
    if constexpr (all)
      store(to + k, v);
    else
      store_first(to + k, v, count);
  }
};

/// Σ f(place, x[k]…) in double. f takes registers with as many values as a register of doubles, and returns
/// such a register. Values after the last are 0; f must return 0 for them.
template <class F, class... X>
ROSSBY_INLINE double sum_registers_at(Index size, const F& f, const X*... x) {
  constexpr int count = lanes<double>, together = 4;
  using D = Vec<double, count>;
  const auto at = [&](auto place) { return f(place, place.template get<Vec<X, count>>(x)...); };
  D sum[together] = {};
  Index k = 0;
  for (; k + together * count <= size; k += together * count)
#pragma GCC unroll 4
    for (int r = 0; r < together; ++r) sum[r] += at(Place<true>{k + r * count, count});
  for (; k + count <= size; k += count) sum[0] += at(Place<true>{k, count});
  if (k < size) sum[1] += at(Place<false>{k, size - k});
  return sum_of_lanes<double, count>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/// Σ f(x[k]…), in the same way.
template <class F, class... X>
ROSSBY_INLINE double sum_registers(Index size, const F& f, const X*... x) {
  return sum_registers_at(
      size, [&](auto, auto... v) { return f(v...); }, x...);
}

/// The lanes as values of T.
template <class T, class V>
ROSSBY_INLINE auto convert(V v) {
  if constexpr (sizeof(v[0]) == sizeof(T))
    return v;
  else
    return __builtin_convertvector(v, Vec<T, static_cast<int>(sizeof(V) / sizeof(v[0]))>);
}

}  // namespace rossby::cpu::ROSSBY_ISA
