#include "rossby/kernels/broadcast.hpp"

#include <algorithm>
#include <array>

#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

/// A thread takes some channels of a column through all rows: without partial sums, results are bit-equal at
/// every number of threads.
template <class T>
void sum_over_rows(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  constexpr Index most = 64;
  const Index pieces = (dy.channels + most - 1) / most;
  for_each_piece(exec, dy.cols * pieces, 1, dy.size(), [&](Index piece, Index) {
    const Index b = piece / pieces, first = piece % pieces * most;
    const Index count = std::min(most, dy.channels - first);
    std::array<double, most> sum{};
    for (Index i = 0; i < dy.rows; ++i) {
      const T* from = dy.at(i, b) + first;
      for (Index c = 0; c < count; ++c) sum[static_cast<std::size_t>(c)] += double{from[c]};
    }
    T* to = dx.at(0, b) + first;
    for (Index c = 0; c < count; ++c)
      to[c] = static_cast<T>(double{to[c]} + sum[static_cast<std::size_t>(c)]);
  });
}

template <class T>
void sum_over_columns(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  const Index piece = std::max<Index>(1, flat_piece / std::max<Index>(1, dy.width()));
  for_each_piece(exec, dy.rows, piece, dy.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      T* to = dx.row(i);
      for (Index b = 0; b < dy.cols; ++b) {
        const T* from = dy.at(i, b);
        for (Index c = 0; c < dy.channels; ++c) to[c] += from[c];
      }
    }
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, sum_over_rows, sum_over_columns)
