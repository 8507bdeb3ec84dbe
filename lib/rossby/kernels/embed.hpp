#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Rows of a table (steps, n, d), packed, as node data. Times lie in [0, steps), rows in [0, n); both may
// repeat.

/// out (n, B, d): out[i, b] = table[times[b], i].
template <class T>
void embed_columns_forward(const Exec& exec, NodeView<T> out, const T* table, Index steps,
                           std::span<const Index> times);

/// dtable[times[b], i] += dout[i, b]: the adjoint. Repeated times add up in column order. Where `begins[b]`
/// is not zero (empty: nowhere) the sum begins anew: dtable[times[b], i] = dout[i, b], whatever was there.
template <class T>
void embed_columns_backward(const Exec& exec, T* dtable, Index steps, NodeView<const T> dout,
                            std::span<const Index> times, std::span<const Index> begins = {});

/// out (p, 1, d): out[q] = table[times[q], rows[q]].
template <class T>
void embed_pairs_forward(const Exec& exec, NodeView<T> out, const T* table, Index steps, Index n,
                         std::span<const Index> times, std::span<const Index> rows);

/// dtable[times[q], rows[q]] += dout[q]: the adjoint. Repeated pairs add up in order of q.
template <class T>
void embed_pairs_backward(const Exec& exec, T* dtable, Index steps, Index n, NodeView<const T> dout,
                          std::span<const Index> times, std::span<const Index> rows);

}  // namespace rossby
