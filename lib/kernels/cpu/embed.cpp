#include "rossby/kernels/embed.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

namespace {

/// Rows of out that one thread takes at a time.
template <class T>
Index rows_a_piece(NodeView<T> out) {
  return std::max<Index>(1, flat_piece / std::max<Index>(1, out.width()));
}

/// Pieces of the nodes: each takes all pairs of its nodes, in order, so that repeated pairs add up the same
/// way always.
constexpr Index node_pieces = 16;

}  // namespace

// A block of nodes reads one run of each step's row and writes one column of the block: the table streams,
// the block stays in the first-level cache.
constexpr Index block_rows = 16;

template <class T, class Copy>
void for_each_block(const Exec& exec, NodeView<T> nodes, std::span<const Index> times, const Copy& copy) {
  for_each_piece(exec, nodes.rows, std::max(rows_a_piece(nodes), block_rows), nodes.size(),
                 [&](Index first, Index last) {
                   for (Index begin = first; begin < last; begin += block_rows)
                     for (Index b = 0; b < nodes.cols; ++b)
                       copy(times[b], b, begin, std::min(begin + block_rows, last));
                 });
}

template <class T>
void embed_columns_forward(const Exec& exec, NodeView<T> out, const T* table, std::span<const Index> times) {
  const Index d = out.channels;
  for_each_block(exec, out, times, [&](Index t, Index b, Index first, Index last) {
    const T* from = table + (t * out.rows + first) * d;
    if (d == 1)
      for (Index i = first; i < last; ++i) *out.at(i, b) = *from++;
    else
      for (Index i = first; i < last; ++i, from += d) std::copy_n(from, d, out.at(i, b));
  });
}

template <class T>
void embed_columns_backward(const Exec& exec, T* dtable, NodeView<const T> dout,
                            std::span<const Index> times) {
  const Index d = dout.channels;
  for_each_block(exec, dout, times, [&](Index t, Index b, Index first, Index last) {
    T* to = dtable + (t * dout.rows + first) * d;
    for (Index i = first; i < last; ++i, to += d) {
      const T* from = dout.at(i, b);
      if (d == 1)
        *to += *from;
      else
        for (Index c = 0; c < d; ++c) to[c] += from[c];
    }
  });
}

template <class T>
void embed_pairs_forward(const Exec& exec, NodeView<T> out, const T* table, Index n,
                         std::span<const Index> times, std::span<const Index> rows) {
  const Index d = out.channels;
  for_each_piece(exec, out.rows, rows_a_piece(out), out.size(), [&](Index first, Index last) {
    for (Index q = first; q < last; ++q) {
      const T* from = table + (times[q] * n + rows[q]) * d;
      T* to = out.row(q);
      for (Index c = 0; c < d; ++c) to[c] = from[c];
    }
  });
}

template <class T>
void embed_pairs_backward(const Exec& exec, T* dtable, Index n, NodeView<const T> dout,
                          std::span<const Index> times, std::span<const Index> rows) {
  const Index d = dout.channels;
  const bool one_piece = exec.threads <= 1 || dout.size() < parallel_threshold;
  const Index piece = one_piece ? n : (n + node_pieces - 1) / node_pieces;
  for_each_piece(exec, n, piece, dout.size(), [&](Index first, Index last) {
    for (Index q = 0; q < dout.rows; ++q) {
      if (rows[q] < first || rows[q] >= last) continue;
      T* to = dtable + (times[q] * n + rows[q]) * d;
      const T* from = dout.row(q);
      for (Index c = 0; c < d; ++c) to[c] += from[c];
    }
  });
}

#define ROSSBY_INSTANTIATE(T)                                                                           \
  template void embed_columns_forward(const Exec&, NodeView<T>, const T*, std::span<const Index>);      \
  template void embed_columns_backward(const Exec&, T*, NodeView<const T>, std::span<const Index>);     \
  template void embed_pairs_forward(const Exec&, NodeView<T>, const T*, Index, std::span<const Index>,  \
                                    std::span<const Index>);                                            \
  template void embed_pairs_backward(const Exec&, T*, Index, NodeView<const T>, std::span<const Index>, \
                                     std::span<const Index>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
