#include "rossby/kernels/rows.hpp"

#include <algorithm>

#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

namespace {

/// Rows per task of a thread.
Index rows_a_piece(Index width) {
  return std::max<Index>(1, flat_piece / std::max<Index>(1, width));
}

}  // namespace

template <class T>
void gather_rows(const Exec& exec, T* out, NodeView<const T> x, std::span<const LocalColumn> rows) {
  const Index width = x.width();
  for_each_piece(exec, std::ssize(rows), rows_a_piece(width), std::ssize(rows) * width,
                 [&](Index first, Index last) {
                   for (Index k = first; k < last; ++k)
                     for (Index b = 0; b < x.cols; ++b)
                       std::copy_n(x.at(rows[static_cast<std::size_t>(k)], b), x.channels,
                                   out + k * width + b * x.channels);
                 });
}

template <class T>
void scatter_add_rows(const Exec& exec, NodeView<T> y, const T* in, const RowSums& sums) {
  const Index width = y.width(), count = std::ssize(sums.rows);
  for_each_piece(
      exec, count, rows_a_piece(width), std::ssize(sums.position) * width, [&](Index first, Index last) {
        for (Index k = first; k < last; ++k)
          for (Index p = sums.ptr[static_cast<std::size_t>(k)]; p < sums.ptr[static_cast<std::size_t>(k + 1)];
               ++p)
            for (Index b = 0; b < y.cols; ++b) {
              const T* from = in + sums.position[static_cast<std::size_t>(p)] * width + b * y.channels;
              T* to = y.at(sums.rows[static_cast<std::size_t>(k)], b);
              for (Index c = 0; c < y.channels; ++c) to[c] += from[c];
            }
      });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, gather_rows, scatter_add_rows)
