#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Rows of a table (steps, n, d), packed, as node data. Times lie in [0, steps), rows in [0, n); both may
// repeat.

/// out (n, B, d): out[i, b] = table[times[b], i].
template <class T>
void embed_columns_forward(const Exec& exec, NodeView<T> out, const T* table, Index steps,
                           std::span<const Index> times) {
  require(out.cols == std::ssize(times) && all_within(times, steps),
          "times lie inside the table, one a column");
  dispatch<embed_columns_forward<T>>(exec, out, table, steps, times);
}

/// The adjoint: dtable[times[b], i] += dout[i, b]. Repeated times add up in column order. If `begins[b]` is
/// not zero, the sum starts afresh: dtable[times[b], i] = dout[i, b]. An empty `begins` means all zero.
template <class T>
void embed_columns_backward(const Exec& exec, T* dtable, Index steps, NodeView<const T> dout,
                            std::span<const Index> times, std::span<const Index> begins = {}) {
  require(dout.cols == std::ssize(times) && all_within(times, steps),
          "times lie inside the table, one a column");
  require(begins.empty() || begins.size() == times.size(), "a sum begins or goes on, one a column");
  dispatch<embed_columns_backward<T>>(exec, dtable, steps, dout, times, begins);
}

/// out (p, 1, d): out[q] = table[times[q], rows[q]].
template <class T>
void embed_pairs_forward(const Exec& exec, NodeView<T> out, const T* table, Index steps, Index n,
                         std::span<const Index> times, std::span<const Index> rows) {
  require(out.rows == std::ssize(times) && times.size() == rows.size() && out.cols == 1,
          "one time and one row a pair");
  require(all_within(times, steps) && all_within(rows, n), "pairs lie inside the table");
  dispatch<embed_pairs_forward<T>>(exec, out, table, steps, n, times, rows);
}

/// The adjoint: dtable[times[q], rows[q]] += dout[q]. Repeated pairs add up in order of q.
template <class T>
void embed_pairs_backward(const Exec& exec, T* dtable, Index steps, Index n, NodeView<const T> dout,
                          std::span<const Index> times, std::span<const Index> rows) {
  require(dout.rows == std::ssize(times) && times.size() == rows.size() && dout.cols == 1,
          "one time and one row a pair");
  require(all_within(times, steps) && all_within(rows, n), "pairs lie inside the table");
  dispatch<embed_pairs_backward<T>>(exec, dtable, steps, n, dout, times, rows);
}

}  // namespace rossby
