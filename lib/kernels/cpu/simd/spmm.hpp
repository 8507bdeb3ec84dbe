#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/isa.hpp"

namespace rossby::cpu {

/// One term of a weighted sum of rows: weight·x, where column b of x lies at x + b·stride.
template <class T>
struct WeightedRow {
  const T* x;
  Index stride;
  T weight;
};

/// Rows of one array, listed with their weights: row q is x + row[q]·row_stride, column b of it col_stride
/// further on; its weight is weight[q], or weight[entry[q]] where there are entries.
template <class T>
struct ListedRows {
  const T* x;
  Index row_stride;
  Index col_stride;
  const LocalColumn* row;
  const T* weight;
  const LocalEntry* entry;
  Index count;
};

/// Functions of one instruction set.
template <class T>
struct SpmmKernels {
  /// y[b, c] = Σ_q terms[q].weight·terms[q].x[b, c] + share·base[b, c] for `cols` columns of `channels`
  /// values; base may be null, and may be y. Terms are added in order, the base first.
  void (*combine)(Index cols, Index channels, T* y, Index y_stride, const WeightedRow<T>* terms, Index count,
                  const T* base, Index base_stride, T share);
  /// The same over the rows of a list, whose weights count `alpha` times.
  void (*gather)(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
                 const T* base, Index base_stride, T share);
};

template <class T>
const SpmmKernels<T>& spmm_kernels(Isa isa);

}  // namespace rossby::cpu
