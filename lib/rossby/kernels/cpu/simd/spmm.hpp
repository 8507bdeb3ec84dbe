#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Rows of an array as a sum reads them: row i begins at x + i·row_stride, its column b col_stride further on
/// each.
template <class T>
struct RowArray {
  const T* x = nullptr;
  Index row_stride = 0;
  Index col_stride = 0;
};

/// Rows listed with their weights: row[q] of `owned` where it is below owned_rows, row[q] - owned_rows of
/// `ghost` else; its weight is weight[q], or weight[entry[q]] where there are entries.
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
  /// base may be null, and may be y. Rows are added in order, the base first.
  void (*gather)(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
                 const T* base, Index base_stride, T share);
};

}  // namespace rossby::cpu
