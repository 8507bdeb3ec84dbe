#pragma once

#include <cblas.h>

#include "rossby/base/index.hpp"

// Matrix products for tiles: BLAS where the inner sizes carry its call, plain vectorisable loops where they
// do not. Row-major. Suffixes: n = as stored, t = transposed.

namespace rossby::cpu {

inline void blas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, Index m, Index n, Index k, float alpha,
                      const float* a, Index lda, const float* b, Index ldb, float beta, float* c, Index ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}
inline void blas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, Index m, Index n, Index k, double alpha,
                      const double* a, Index lda, const double* b, Index ldb, double beta, double* c,
                      Index ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

/// Below this many multiply-adds per row of the tall operand, a BLAS call costs more than it saves.
inline constexpr Index small_inner = 64;

/// Σ x·y in 16 partial sums: a fixed order that fills vector registers.
template <class T>
inline T dot(Index width, const T* __restrict x, const T* __restrict y) {
  constexpr Index lanes = 16;
  T lane[lanes] = {};
  Index q = 0;
  for (; q + lanes <= width; q += lanes)
    for (Index l = 0; l < lanes; ++l) lane[l] += x[q + l] * y[q + l];
  T sum = 0;
  for (; q < width; ++q) sum += x[q] * y[q];
  for (Index half = lanes / 2; half > 0; half /= 2)
    for (Index l = 0; l < half; ++l) lane[l] += lane[l + half];
  return sum + lane[0];
}

/// c (m, n) += a (m, k) · b (n, k)ᵀ, b with row stride ldb.
template <class T>
void gemm_nt(Index m, Index n, Index k, const T* a, const T* b, Index ldb, T* c) {
  if (n == 1 && k == 1) {
    const T factor = b[0];
    for (Index i = 0; i < m; ++i) c[i] += factor * a[i];
    return;
  }
  if (n * k > small_inner)
    return blas_gemm(CblasNoTrans, CblasTrans, m, n, k, T(1), a, k, b, ldb, T(1), c, n);
  for (Index i = 0; i < m; ++i)
    for (Index o = 0; o < n; ++o) {
      T sum = 0;
      for (Index f = 0; f < k; ++f) sum += a[i * k + f] * b[o * ldb + f];
      c[i * n + o] += sum;
    }
}

/// c (m, n) += a (m, k) · b (k, n), b with row stride ldb.
template <class T>
void gemm_nn(Index m, Index n, Index k, const T* a, const T* b, Index ldb, T* c) {
  if (n == 1 && k == 1) {
    const T factor = b[0];
    for (Index i = 0; i < m; ++i) c[i] += factor * a[i];
    return;
  }
  if (n * k > small_inner)
    return blas_gemm(CblasNoTrans, CblasNoTrans, m, n, k, T(1), a, k, b, ldb, T(1), c, n);
  for (Index i = 0; i < m; ++i)
    for (Index f = 0; f < k; ++f) {
      const T x = a[i * k + f];
      for (Index o = 0; o < n; ++o) c[i * n + o] += x * b[f * ldb + o];
    }
}

/// c (m, n) += a (k, m)ᵀ · b (k, n), c with row stride ldc.
template <class T>
void gemm_tn(Index m, Index n, Index k, const T* a, const T* b, T* c, Index ldc) {
  if (m == 1 && n == 1) {
    c[0] += dot(k, a, b);
    return;
  }
  if (m * n > small_inner)
    return blas_gemm(CblasTrans, CblasNoTrans, m, n, k, T(1), a, m, b, n, T(1), c, ldc);
  for (Index i = 0; i < k; ++i)
    for (Index p = 0; p < m; ++p) {
      const T x = a[i * m + p];
      for (Index q = 0; q < n; ++q) c[p * ldc + q] += x * b[i * n + q];
    }
}

}  // namespace rossby::cpu
