#pragma once

#include <algorithm>
#include <span>

#include "rossby/kernels/cpu/loops.hpp"

// Sums shared by batch and layer normalisation.

namespace rossby::cpu {

/// Rows of a partial sum. Depends on the shape alone, so that results do not depend on threads.
inline Index partial_rows(Index rows) {
  constexpr Index most_partials = 32;
  return std::max<Index>(1, (rows + most_partials - 1) / most_partials);
}

/// Doubles of scratch that add_up_pairs needs for `width` pairs.
inline Index pairs_scratch_size(const Exec& exec, Index rows, Index width) {
  if (exec.device && !is_of_host(exec)) return 0;
  const Index partial = partial_rows(rows);
  return (rows + partial - 1) / partial * 2 * width;
}

template <class T>
Index rows_a_piece(NodeView<T> x) {
  return std::max<Index>(1, flat_piece / std::max<Index>(1, x.width()));
}

/// sums (2·width): add(partial, row, column) adds each row and column of x to partial sums of that size.
template <class T, class Add>
void add_up_pairs(const Exec& exec, double* sums, Index width, NodeView<const T> x, std::span<double> scratch,
                  const Add& add) {
  const Index size = 2 * width, rows = partial_rows(x.rows);
  for_each_piece(exec, x.rows, rows, 2 * x.size(), [&](Index first, Index last) {
    double* partial = scratch.data() + first / rows * size;
    std::fill_n(partial, size, 0.0);
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) add(partial, i, b);
  });
  std::fill_n(sums, size, 0.0);
  for (Index p = 0; p * rows < x.rows; ++p)
    for (Index k = 0; k < size; ++k) sums[k] += scratch[static_cast<std::size_t>(p * size + k)];
}

}  // namespace rossby::cpu
