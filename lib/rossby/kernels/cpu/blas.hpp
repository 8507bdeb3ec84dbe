#pragma once

#include <cblas.h>

#include "rossby/tensor/view.hpp"

namespace rossby::cpu {

enum class Side { plain = CblasNoTrans, transposed = CblasTrans };

/// c (rows, cols) = op(a)·op(b) + beta·c, row-major; with beta 0, c is not read. Sizes come from the views:
/// op(a) is (rows, inner), op(b) (inner, cols). OpenBLAS must run one thread per call, because the kernels
/// thread around it.
inline void gemm(Side side_a, Side side_b, MatrixView<const float> a, MatrixView<const float> b, float beta,
                 MatrixView<float> c) {
  const Index inner = side_a == Side::plain ? a.cols : a.rows;
  cblas_sgemm(CblasRowMajor, static_cast<CBLAS_TRANSPOSE>(side_a), static_cast<CBLAS_TRANSPOSE>(side_b),
              static_cast<blasint>(c.rows), static_cast<blasint>(c.cols), static_cast<blasint>(inner), 1.0f,
              a.data, static_cast<blasint>(a.stride), b.data, static_cast<blasint>(b.stride), beta, c.data,
              static_cast<blasint>(c.stride));
}

inline void gemm(Side side_a, Side side_b, MatrixView<const double> a, MatrixView<const double> b,
                 double beta, MatrixView<double> c) {
  const Index inner = side_a == Side::plain ? a.cols : a.rows;
  cblas_dgemm(CblasRowMajor, static_cast<CBLAS_TRANSPOSE>(side_a), static_cast<CBLAS_TRANSPOSE>(side_b),
              static_cast<blasint>(c.rows), static_cast<blasint>(c.cols), static_cast<blasint>(inner), 1.0,
              a.data, static_cast<blasint>(a.stride), b.data, static_cast<blasint>(b.stride), beta, c.data,
              static_cast<blasint>(c.stride));
}

}  // namespace rossby::cpu
