#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Rows of an array: row i begins at x + i·row_stride, and its column b is b·col_stride further on.
template <class T>
struct RowArray {
  const T* x = nullptr;
  Index row_stride = 0;
  Index col_stride = 0;
};

/// Listed rows with weights: row[q] of `owned` if it is below owned_rows, else row[q] - owned_rows of
/// `ghost`. Its weight is weight[q], or weight[entry[q]] if there are entries.
template <class T>
struct ListedRows {
  RowArray<T> owned;
  RowArray<T> ghost;  // no x: every row is an owned one
  Index owned_rows;
  const LocalColumn* row;
  const T* weight;
  const LocalEntry* entry;
  Index count;
};

/// Functions of one instruction set.
template <class T>
struct SpmmKernels {
  /// y[b, c] = Σ_q alpha·weight_q·row_q[b, c] + share·base[b, c] for `cols` columns of `channels` values;
  /// base may be null, and may be y. Rows are added in order, after the base.
  void (*gather)(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
                 const T* base, Index base_stride, T share);
};

}  // namespace rossby::cpu
