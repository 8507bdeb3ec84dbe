#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Adjoints of additions in which all rows, or all columns, of node data read the same values. The additions
// themselves are calls of accumulate() with a view whose stride is 0.

/// dx (1, B, c) += Σ over rows of dy (n, B, c). Sums are in double; the host adds in row order.
template <class T>
void sum_over_rows(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  require(dx.rows == 1 && dx.cols == dy.cols && dx.channels == dy.channels,
          "a sum over rows is (1, columns, channels)");
  if (dy.size() == 0) return;
  dispatch<sum_over_rows<T>>(exec, dx, dy);
}

/// dx (n, 1, c) += Σ over columns of dy (n, B, c), in column order.
template <class T>
void sum_over_columns(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  require(dx.rows == dy.rows && dx.cols == 1 && dx.channels == dy.channels,
          "a sum over columns is (rows, 1, channels)");
  if (dy.size() == 0) return;
  dispatch<sum_over_columns<T>>(exec, dx, dy);
}

}  // namespace rossby
