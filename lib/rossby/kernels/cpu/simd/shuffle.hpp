#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// Adds neighbours: lanes 0…L/2−1 hold a₀+a₁, a₂+a₃, …; the others the same of b.
template <class T>
ROSSBY_INLINE Vec<T, 2> add_neighbours(Vec<T, 2> a, Vec<T, 2> b) {
  return __builtin_shufflevector(a, b, 0, 2) + __builtin_shufflevector(a, b, 1, 3);
}
template <class T>
ROSSBY_INLINE Vec<T, 4> add_neighbours(Vec<T, 4> a, Vec<T, 4> b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}
template <class T>
ROSSBY_INLINE Vec<T, 8> add_neighbours(Vec<T, 8> a, Vec<T, 8> b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}
template <class T>
ROSSBY_INLINE Vec<T, 16> add_neighbours(Vec<T, 16> a, Vec<T, 16> b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

/// v[s] holds N sums in groups of S = L/N neighbouring lanes; returns the totals, those of v[0] first.
template <class T, int L, int S>
ROSSBY_INLINE Vec<T, L> fold(Vec<T, L>* v) {
  if constexpr (S > 1)
#pragma GCC unroll 4
    for (int count = S / 2; count > 0; count /= 2)
#pragma GCC unroll 8
      for (int q = 0; q < count; ++q) v[q] = add_neighbours<T>(v[2 * q], v[2 * q + 1]);
  return v[0];
}

/// Sums of the lanes of eight registers.
template <class T, int C>
ROSSBY_INLINE void eight_sums(Vec<T, C>* v, T* sums) {
  if constexpr (C == 1) {
    for (int q = 0; q < 8; ++q) sums[q] = v[q][0];
  } else if constexpr (C > 8) {
    Vec<T, 8> half[8];
    for (int q = 0; q < 8; ++q) {
      Vec<T, 8> low, high;
      __builtin_memcpy(&low, &v[q], sizeof(low));
      __builtin_memcpy(&high, reinterpret_cast<const char*>(&v[q]) + sizeof(low), sizeof(high));
      half[q] = low + high;
    }
    store(sums, fold<T, 8, 8>(half));
  } else {
#pragma GCC unroll 8
    for (int q = 0; q < 8; q += C) store(sums + q, fold<T, C, C>(v + q));
  }
}

/// S values from memory, repeated over L lanes.
template <class T, int L, int S>
ROSSBY_INLINE Vec<T, L> repeat(const T* from) {
  using V = Vec<T, L>;
  if constexpr (S == 1) return splat<V>(*from);
  if constexpr (S == L) return load<V>(from);
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && S * sizeof(T) == 16)
    return (V)_mm512_broadcast_f32x4(_mm_loadu_ps(reinterpret_cast<const float*>(from)));
  if constexpr (sizeof(V) == 64 && S * sizeof(T) == 32)
    return (V)_mm512_broadcast_f32x8(_mm256_loadu_ps(reinterpret_cast<const float*>(from)));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && S * sizeof(T) == 16)
    return (V)_mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
#endif
  if constexpr (S * sizeof(T) == 8) {
    double pair;
    __builtin_memcpy(&pair, from, 8);
    using Pairs = Vec<double, L* static_cast<int>(sizeof(T)) / 8>;
    return (V)splat<Pairs>(pair);
  }
  V v;
  for (int q = 0; q < L; ++q) v[q] = from[q % S];
  return v;
}

template <int... I>
struct Places {};
#if defined(__clang__)
template <class, int... I>
using PlacesOf = Places<I...>;
template <int n>
using AllPlaces = __make_integer_seq<PlacesOf, int, n>;
#else
template <int n>
using AllPlaces = Places<__integer_pack(n)...>;
#endif

template <int first, class V, int... I>
ROSSBY_INLINE V every_second(V a, V b, Places<I...>) {
  return __builtin_shufflevector(a, b, (2 * I + first)...);
}
/// The even (first = 0) or odd values of two consecutive registers.
template <int first, class V>
ROSSBY_INLINE V every_second(V a, V b) {
  return every_second<first>(a, b, AllPlaces<static_cast<int>(sizeof(V) / sizeof(a[0]))>{});
}

template <class T, int L, int S, int... I>
ROSSBY_INLINE Vec<T, L> stretch(const T* from, Places<I...>) {
  // A whole register first: the compiler would move part of one lane by lane.
  const Vec<T, L> v = repeat<T, L, L / S>(from);
  return __builtin_shufflevector(v, v, (I / S)...);
}

/// L/S values from memory, each in S neighbouring lanes.
template <class T, int L, int S>
ROSSBY_INLINE Vec<T, L> stretch(const T* from) {
  if constexpr (S == 1)
    return load<Vec<T, L>>(from);
  else if constexpr (S == L)
    return splat<Vec<T, L>>(*from);
  else
    return stretch<T, L, S>(from, AllPlaces<L>{});
}

}  // namespace rossby::cpu::ROSSBY_ISA
