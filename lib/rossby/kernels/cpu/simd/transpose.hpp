#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {

// zip: a₀ b₀ a₁ b₁ … in two registers; unzip is its inverse.
template <class T>
ROSSBY_INLINE void zip(Vec<T, 2> a, Vec<T, 2> b, Vec<T, 2>& low, Vec<T, 2>& high) {
  low = __builtin_shufflevector(a, b, 0, 2);
  high = __builtin_shufflevector(a, b, 1, 3);
}
template <class T>
ROSSBY_INLINE void unzip(Vec<T, 2> low, Vec<T, 2> high, Vec<T, 2>& a, Vec<T, 2>& b) {
  a = __builtin_shufflevector(low, high, 0, 2);
  b = __builtin_shufflevector(low, high, 1, 3);
}
template <class T>
ROSSBY_INLINE void zip(Vec<T, 4> a, Vec<T, 4> b, Vec<T, 4>& low, Vec<T, 4>& high) {
  low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
template <class T>
ROSSBY_INLINE void unzip(Vec<T, 4> low, Vec<T, 4> high, Vec<T, 4>& a, Vec<T, 4>& b) {
  a = __builtin_shufflevector(low, high, 0, 2, 4, 6);
  b = __builtin_shufflevector(low, high, 1, 3, 5, 7);
}
template <class T>
ROSSBY_INLINE void zip(Vec<T, 8> a, Vec<T, 8> b, Vec<T, 8>& low, Vec<T, 8>& high) {
  low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
template <class T>
ROSSBY_INLINE void unzip(Vec<T, 8> low, Vec<T, 8> high, Vec<T, 8>& a, Vec<T, 8>& b) {
  a = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
  b = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
}
template <class T>
ROSSBY_INLINE void zip(Vec<T, 16> a, Vec<T, 16> b, Vec<T, 16>& low, Vec<T, 16>& high) {
  low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
template <class T>
ROSSBY_INLINE void unzip(Vec<T, 16> low, Vec<T, 16> high, Vec<T, 16>& a, Vec<T, 16>& b) {
  a = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  b = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

/// K registers of L values, (K, L), transposed to (L, K).
template <class T, int L, int K>
ROSSBY_INLINE void interleave(Vec<T, L>* v) {
  if constexpr (K > 1) {
    Vec<T, L> w[K];
#pragma GCC unroll 4
    for (int done = 1; done < K; done *= 2) {
#pragma GCC unroll 8
      for (int q = 0; q < K / 2; ++q) zip<T>(v[q], v[q + K / 2], w[2 * q], w[2 * q + 1]);
#pragma GCC unroll 8
      for (int q = 0; q < K; ++q) v[q] = w[q];
    }
  }
}

/// (L, K) in K registers of L values, transposed to (K, L).
template <class T, int L, int K>
ROSSBY_INLINE void separate(Vec<T, L>* v) {
  if constexpr (K > 1) {
    Vec<T, L> w[K];
#pragma GCC unroll 4
    for (int done = 1; done < K; done *= 2) {
#pragma GCC unroll 8
      for (int q = 0; q < K / 2; ++q) unzip<T>(v[2 * q], v[2 * q + 1], w[q], w[q + K / 2]);
#pragma GCC unroll 8
      for (int q = 0; q < K; ++q) v[q] = w[q];
    }
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
