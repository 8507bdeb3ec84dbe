#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// One operand of a product: entry (i, j) lies at data[i·row_stride + j·col_stride].
template <class T>
struct Strided {
  const T* data = nullptr;
  Index row_stride = 0;
  Index col_stride = 1;
};

/// Functions of one instruction set: products of tall matrices with small ones, for shapes for which a BLAS
/// spends much of its time on packing the tall operand and zeroing the result.
template <class T>
struct TallKernels {
  /// c (m, n) = a (m, k)·b (k, n), or c += the same with `add`; rows of c packed, `stride` apart. Every entry
  /// is summed in the order of k, whatever m.
  void (*multiply)(Index m, Index n, Index k, Strided<T> a, Strided<T> b, T* c, Index stride, bool add);
};

}  // namespace rossby::cpu
