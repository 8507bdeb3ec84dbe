#include "rossby/kernels/embed.hpp"

#include <algorithm>
#include <array>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/table_blocks.hpp"

namespace rossby::cpu {

namespace {

/// Rows of `out` that a thread takes at a time.
template <class T>
Index rows_a_piece(NodeView<T> out) {
  return std::max<Index>(1, flat_piece / std::max<Index>(1, out.width()));
}

/// Pieces of the nodes. Each takes all pairs of its nodes in order, so that repeated pairs always add up the
/// same way.
constexpr Index node_pieces = 16;

}  // namespace

// A block of nodes reads one run of each step's row and writes a few columns of the block: the table streams,
// the block stays in the first-level cache.
constexpr Index most_block_rows = 64, least_block_rows = 16, block_values = 1024;

/// f(first, last, first column, count, start of each column's table row at `first`) over blocks of nodes and
/// of up to joined_columns columns. `reads`: the table is read.
template <bool reads, class T, class View, class F>
void for_each_block(const Exec& exec, View nodes, T* table, std::span<const Index> times, const F& f) {
  const Index width = std::max<Index>(1, std::min(joined_columns, nodes.cols) * nodes.channels);
  const Index block_rows = std::clamp(block_values / width, least_block_rows, most_block_rows);
  const Index piece = (rows_a_piece(nodes) + block_rows - 1) / block_rows * block_rows;
  for_each_piece(exec, nodes.rows, piece, nodes.size(), [&](Index first, Index last) {
    std::array<T*, joined_columns> steps;
    for (Index begin = first; begin < last; begin += block_rows)
      for (Index b = 0; b < nodes.cols; b += joined_columns) {
        const Index count = std::min(joined_columns, nodes.cols - b);
        for (Index q = 0; q < count; ++q) {
          T* const step = table + (times[b + q] * nodes.rows + begin) * nodes.channels;
          steps[static_cast<std::size_t>(q)] = step;
          if constexpr (reads) ask_ahead(step, block_rows * nodes.channels);
        }
        f(begin, std::min(begin + block_rows, last), b, count, steps.data());
      }
  });
}

template <class T>
void embed_columns_forward(const Exec& exec, NodeView<T> out, const T* table, Index,
                           std::span<const Index> times) {
  const Index d = out.channels;
  const auto join = kernels_of<ColumnKernels, T>(exec.isa).join;
  const bool side_by_side = out.col_stride == d || out.cols <= 1;
  for_each_block<true>(exec, out, table, times,
                       [&](Index first, Index last, Index b, Index count, const T* const* steps) {
                         if (side_by_side)
                           return join(last - first, count, d, steps, out.at(first, b), out.row_stride);
                         for (Index q = 0; q < count; ++q)
                           for (Index i = first; i < last; ++i)
                             std::copy_n(steps[q] + (i - first) * d, d, out.at(i, b + q));
                       });
}

template <class T>
void embed_columns_backward(const Exec& exec, T* dtable, Index, NodeView<const T> dout,
                            std::span<const Index> times, std::span<const Index> begins) {
  const Index d = dout.channels;
  const auto split_add = kernels_of<ColumnKernels, T>(exec.isa).split_add;
  const bool side_by_side = dout.col_stride == d || dout.cols <= 1;
  for_each_block<false>(
      exec, dout, dtable, times, [&](Index first, Index last, Index b, Index count, T* const* steps) {
        const Index* anew = begins.empty() ? nullptr : begins.data() + b;
        if (side_by_side)
          return split_add(last - first, count, d, steps, anew, dout.at(first, b), dout.row_stride);
        for (Index q = 0; q < count; ++q) {
          if (anew && anew[q] != 0) std::fill_n(steps[q], (last - first) * d, T(0));
          for (Index i = first; i < last; ++i)
            for (Index c = 0; c < d; ++c) steps[q][(i - first) * d + c] += dout.at(i, b + q)[c];
        }
      });
}

template <class T>
void embed_pairs_forward(const Exec& exec, NodeView<T> out, const T* table, Index, Index n,
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
void embed_pairs_backward(const Exec& exec, T* dtable, Index, Index n, NodeView<const T> dout,
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

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, embed_columns_forward, embed_columns_backward, embed_pairs_forward,
                 embed_pairs_backward)
