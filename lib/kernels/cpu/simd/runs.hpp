#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

// Walks over contiguous values, a register at a time.

namespace rossby::cpu::ROSSBY_ISA {

#if defined(__AVX2__) && !defined(__AVX512VL__)
/// Masks of the first `count` of as many lanes.
ROSSBY_INLINE __m256i first_of_eight(Index count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
ROSSBY_INLINE __m256i first_of_four(Index count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
#endif

/// Whether the two below are an instruction each.
inline constexpr bool masked_loads = register_bytes > 16;

/// The first `count` lanes from memory, fewer than all, the others 0: memory behind them is not touched.
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
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && sizeof(V) == 32)
    return (V)_mm256_maskload_epi32(reinterpret_cast<const int*>(from), first_of_eight(count));
  if constexpr (sizeof(T) == 8 && sizeof(V) == 32)
    return (V)_mm256_maskload_epi64(reinterpret_cast<const long long*>(from), first_of_four(count));
#endif
  V v{};
  for (Index q = 0; q < count; ++q) v[static_cast<int>(q)] = from[q];
  return v;
}

template <class V, class T>
ROSSBY_INLINE void store_first(T* to, V v, Index count) {
#if defined(__AVX512VL__)
  const unsigned some = (1U << count) - 1;
  if constexpr (sizeof(T) == 4 && sizeof(V) == 64)
    return _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(some), (__m512i)v);
  if constexpr (sizeof(T) == 8 && sizeof(V) == 64)
    return _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(some), (__m512i)v);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && sizeof(V) == 32)
    return _mm256_maskstore_epi32(reinterpret_cast<int*>(to), first_of_eight(count), (__m256i)v);
  if constexpr (sizeof(T) == 8 && sizeof(V) == 32)
    return _mm256_maskstore_epi64(reinterpret_cast<long long*>(to), first_of_four(count), (__m256i)v);
#endif
  for (Index q = 0; q < count; ++q) to[q] = v[static_cast<int>(q)];
}

/// y[k] = f(y[k], x[k]…), where f takes and returns registers; y is not read where f ignores it.
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

/// Σ f(x[k]…) in double: f takes registers of as many values as a register of doubles has, and returns such a
/// register. f(0…) must be 0.
template <class F, class... X>
ROSSBY_INLINE double sum_registers(Index size, const F& f, const X*... x) {
  constexpr int count = lanes<double>, together = 4;
  using D = Vec<double, count>;
  D sum[together] = {};
  Index k = 0;
  for (; k + together * count <= size; k += together * count)
#pragma GCC unroll 4
    for (int r = 0; r < together; ++r) sum[r] += f(load<Vec<X, count>>(x + k + r * count)...);
  for (; k + count <= size; k += count) sum[0] += f(load<Vec<X, count>>(x + k)...);
  if (k < size) sum[1] += f(load_first<Vec<X, count>>(x + k, size - k)...);
  return sum_of_lanes<double, count>((sum[0] + sum[1]) + (sum[2] + sum[3]));
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
