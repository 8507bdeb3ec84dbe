#pragma once

// Blocks of a table's rows (steps, n, d) and node data: each block reads or writes one run of every column's
// row.

#include <algorithm>
#include <array>
#include <span>

#include "rossby/kernels/cpu/simd/columns.hpp"

namespace rossby::cpu {

/// Prefetches two blocks ahead in a table whose blocks have `values` values: the runs are too short for the
/// processor to predict. Uses the second-level cache, because the first has few loads in flight at a time.
template <class T>
void ask_ahead(const T* table, Index values) {
  for (Index k = 2 * values; k < 3 * values; k += 64 / static_cast<Index>(sizeof(T)))
    __builtin_prefetch(table + k, 0, 2);
}

/// f(first column, count, start of each column's row at node `first`) for groups of up to joined_columns.
template <class T, class F>
void for_each_group(T* table, std::span<const Index> times, Index n, Index d, Index first, const F& f) {
  std::array<T*, joined_columns> rows;
  const Index cols = std::ssize(times);
  for (Index b = 0; b < cols; b += joined_columns) {
    const Index count = std::min(joined_columns, cols - b);
    for (Index q = 0; q < count; ++q)
      rows[static_cast<std::size_t>(q)] = table + (times[static_cast<std::size_t>(b + q)] * n + first) * d;
    f(b, count, rows.data());
  }
}

}  // namespace rossby::cpu
