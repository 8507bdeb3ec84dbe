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

/// Functions of one instruction set.
template <class T>
struct SpmmKernels {
  /// y[b, c] = Σ_q terms[q].weight·terms[q].x[b, c] + share·base[b, c] for `cols` columns of `channels`
  /// values; base may be null, and may be y. Terms are added in order, the base first.
  void (*combine)(Index cols, Index channels, T* y, Index y_stride, const WeightedRow<T>* terms, Index count,
                  const T* base, Index base_stride, T share);
};

template <class T>
const SpmmKernels<T>& spmm_kernels(Isa isa);

}  // namespace rossby::cpu
