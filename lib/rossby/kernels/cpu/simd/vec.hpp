#pragma once

// Vector registers for the sources of this folder, which are compiled once per instruction set (ROSSBY_ISA
// names it: portable, avx2, avx512). Everything lies in a namespace of that name, and no standard header with
// code is included: the linker would keep one copy of an inline function that two sets share, with the
// instructions of either.

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "rossby/base/index.hpp"

#ifndef ROSSBY_ISA
#error "lib/rossby/kernels/CMakeLists.txt compiles the sources of this folder once for each of ISA_SETS"
#endif

/// Defines TABLE<T> of this set by its functions. Only the portable set has doubles (rossby::isa_of).
#define ROSSBY_TABLE_OF(TABLE, SCALAR, ...)           \
  template <>                                         \
  const TABLE<SCALAR>& table<TABLE<SCALAR>>() {       \
    using T = SCALAR;                                 \
    static constexpr TABLE<T> functions{__VA_ARGS__}; \
    return functions;                                 \
  }
#ifdef ROSSBY_ISA_DOUBLES
#define ROSSBY_TABLE(TABLE, ...)             \
  ROSSBY_TABLE_OF(TABLE, float, __VA_ARGS__) \
  ROSSBY_TABLE_OF(TABLE, double, __VA_ARGS__)
#else
#define ROSSBY_TABLE(TABLE, ...) ROSSBY_TABLE_OF(TABLE, float, __VA_ARGS__)
#endif

#define ROSSBY_INLINE inline __attribute__((always_inline))

namespace rossby::cpu::ROSSBY_ISA {

/// Bytes of a register.
#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

template <class T, int n>
struct VecOf {
  typedef T type __attribute__((vector_size(n * sizeof(T))));
};
/// n values of T side by side, with the operators of T.
template <class T, int n>
using Vec = typename VecOf<T, n>::type;

/// Values of T in a register.
template <class T>
inline constexpr int lanes = register_bytes / static_cast<int>(sizeof(T));

template <class V, class T>
ROSSBY_INLINE V load(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}

/// The same, kept in a register because it is read again and again. Otherwise the compiler folds the load
/// into each instruction, and loads are the bottleneck of such a loop.
template <class V>
ROSSBY_INLINE V held(V v) {
#if defined(__AVX512F__)  // with fewer registers it would spill
  asm("" : "+v"(v));
#endif
  return v;
}

/// Prefetches the line at `from` into the second-level cache. The first level has at most some two dozen
/// lines in flight. Beyond that, nothing else is loaded either, and computation waits for memory instead of
/// hiding it.
ROSSBY_INLINE void fetch_ahead(const void* from) {
  __builtin_prefetch(from, 0, 2);
}

/// Prefetches memory that will be written and was not read: stores alone request few lines at a time.
ROSSBY_INLINE void fetch_to_write(const void* to) {
  constexpr int ahead = 1024;  // bytes
  __builtin_prefetch(static_cast<const char*>(to) + ahead, 1, 2);
}

/// V with only the alignment of T.
template <class V, class T>
struct InMemory {
  typedef V type __attribute__((aligned(sizeof(T))));
};
/// True if V holds several values of T.
template <class V, class T>
inline constexpr bool several = sizeof(V) > sizeof(T) && __is_same(__typeof__(V{}[0] + T{}), T) &&
                                __is_same(__typeof__(V{}[0] + V{}[0]), T);

/// Writes V as values of T, if it holds several: the compiler then knows that pointers and sizes do
/// not change and need not be reloaded.
template <class V, class T>
ROSSBY_INLINE void store(T* to, V v) {
  if constexpr (several<V, T>)
    *reinterpret_cast<typename InMemory<V, T>::type*>(to) = v;
  else
    __builtin_memcpy(to, &v, sizeof(V));
}

/// x in every lane.
template <class V, class T>
ROSSBY_INLINE V splat(T x) {
  return x - V{};
}

/// max(v, 0) and min(v, 1) of each lane; NaN stays NaN.
template <class V>
ROSSBY_INLINE V clamp01(V v) {
  const V zero{};
  const V one = splat<V>(decltype(v[0] + v[0])(1));
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(v[0]) == 4)
    return (V)_mm512_min_ps((__m512)one, _mm512_max_ps((__m512)zero, (__m512)v));
  if constexpr (sizeof(V) == 64 && sizeof(v[0]) == 8)
    return (V)_mm512_min_pd((__m512d)one, _mm512_max_pd((__m512d)zero, (__m512d)v));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && sizeof(v[0]) == 4)
    return (V)_mm256_min_ps((__m256)one, _mm256_max_ps((__m256)zero, (__m256)v));
  if constexpr (sizeof(V) == 32 && sizeof(v[0]) == 8)
    return (V)_mm256_min_pd((__m256d)one, _mm256_max_pd((__m256d)zero, (__m256d)v));
#endif
  v = v < zero ? zero : v;
  return v > one ? one : v;
}

/// a·b + c, rounded once if the set has the instruction. Written explicitly if two places must be bit-equal:
/// otherwise the compiler chooses each time which product it fuses into an addition.
template <class V>
ROSSBY_INLINE V mul_add(V a, V b, V c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 4)
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 8)
    return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 4)
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  if constexpr (sizeof(V) == 32 && sizeof(a[0]) == 8)
    return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  if constexpr (sizeof(V) == 16 && sizeof(a[0]) == 4) return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#endif
  return a * b + c;
}

/// √v of each lane.
template <class V>
ROSSBY_INLINE V square_root(V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(v[0]) == 4) return (V)_mm512_sqrt_ps((__m512)v);
  if constexpr (sizeof(V) == 64 && sizeof(v[0]) == 8) return (V)_mm512_sqrt_pd((__m512d)v);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && sizeof(v[0]) == 4) return (V)_mm256_sqrt_ps((__m256)v);
  if constexpr (sizeof(V) == 32 && sizeof(v[0]) == 8) return (V)_mm256_sqrt_pd((__m256d)v);
#endif
  constexpr int count = static_cast<int>(sizeof(V) / sizeof(v[0]));
  if constexpr (sizeof(v[0]) == 4)
    for (int l = 0; l < count; ++l) v[l] = __builtin_sqrtf(v[l]);
  else
    for (int l = 0; l < count; ++l) v[l] = __builtin_sqrt(v[l]);
  return v;
}

/// Sum of the lanes, by halves.
template <class T, int n>
ROSSBY_INLINE T sum_of_lanes(Vec<T, n> v) {
  if constexpr (n == 1) {
    return v[0];
  } else {
    Vec<T, n / 2> low, high;
    __builtin_memcpy(&low, &v, sizeof(low));
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(low), sizeof(high));
    return sum_of_lanes<T, n / 2>(low + high);
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
