#include "rossby/kernels/cpu/simd/spmm.hpp"

#include <algorithm>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/spmm.hpp"

namespace rossby::cpu {
namespace {

/// Columns are taken in runs of this many values per row, so that the rows that a block of rows reads stay in
/// the second-level cache.
constexpr Index values_a_run = 256;

/// True if columns are contiguous and form one long run of channels.
template <class T>
bool joined(NodeView<T> view) {
  return view.col_stride == view.channels || view.cols <= 1;
}

/// Division into runs: (columns, channels) as the kernel sees them, and the columns of a run.
struct Runs {
  bool joined = false;
  Index cols = 1;
  Index channels = 0;
  Index cols_a_run = 1;
  Index channels_a_run = 0;

  Runs(Index columns, Index width, bool join)
      : joined(join), cols(join ? 1 : columns), channels(join ? columns * width : width) {
    channels_a_run = joined ? std::min(channels, values_a_run) : channels;
    cols_a_run = joined ? 1 : std::max<Index>(1, values_a_run / std::max<Index>(1, channels));
  }

  template <class F>
  void for_each(const F& f) const {
    for (Index b = 0; b < cols; b += cols_a_run)
      for (Index c = 0; c < channels; c += channels_a_run)
        f(b, c, std::min(cols_a_run, cols - b), std::min(channels_a_run, channels - c));
  }
};

/// The rows of a view from column b and channel c on.
template <class T>
RowArray<T> rows_from(NodeView<const T> view, Index b, Index c) {
  return {view.at(0, b) + c, view.row_stride, view.col_stride};
}

Index rows_a_piece(Index width) {
  return std::max<Index>(1, flat_piece / std::max<Index>(1, width));
}

}  // namespace

template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  const CsrBlock& block = *s.block;
  const SpmmKernels<T>& kernels = kernels_of<SpmmKernels, T>(exec.isa);
  const Runs runs(
      y.cols, y.channels,
      joined(y) && joined(owned) && (ghost.rows == 0 || joined(ghost)) && (!minus.data || joined(minus)));
  const auto count = static_cast<Index>(rows.size());
  const bool ghosts = ghost.rows > 0;
  runs.for_each([&](Index b, Index c, Index cols, Index channels) {
    for_each_piece(exec, count, rows_a_piece(cols * channels), count * cols * channels,
                   [&](Index first, Index last) {
                     for (Index k = first; k < last; ++k) {
                       const Index i = rows[static_cast<std::size_t>(k)];
                       const Index list = i * block.relations + s.relation;
                       const Index begin = block.ptr[list];
                       const ListedRows<T> listed{rows_from(owned, b, c),
                                                  ghosts ? rows_from(ghost, b, c) : RowArray<T>{},
                                                  owned.rows,
                                                  block.column.data() + begin,
                                                  s.weight + begin,
                                                  nullptr,
                                                  block.ptr[list + 1] - begin};
                       kernels.gather(cols, channels, y.at(i, b) + c, y.col_stride, listed, alpha,
                                      minus.data ? minus.at(i, b) + c : nullptr, minus.col_stride, T{-1});
                     }
                   });
  });
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first_column,
                  NodeView<const T> dy) {
  const CsrBlock& block = *s.block;
  const SpmmKernels<T>& kernels = kernels_of<SpmmKernels, T>(exec.isa);
  const Runs runs(dx.cols, dx.channels, joined(dx) && joined(dy));
  runs.for_each([&](Index b, Index c, Index cols, Index channels) {
    for_each_piece(exec, dx.rows, rows_a_piece(cols * channels), dx.rows * cols * channels,
                   [&](Index first, Index last) {
                     for (Index i = first; i < last; ++i) {
                       const Index list = (first_column + i) * block.relations + s.relation;
                       const Index begin = block.t_ptr[list];
                       const Index count = block.t_ptr[list + 1] - begin;
                       if (count == 0) continue;
                       const ListedRows<T> listed{
                           rows_from(dy, b, c),          {},   dy.rows, block.t_row.data() + begin, s.weight,
                           block.t_entry.data() + begin, count};
                       T* to = dx.at(i, b) + c;
                       kernels.gather(cols, channels, to, dx.col_stride, listed, alpha, to, dx.col_stride,
                                      T{1});
                     }
                   });
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, spmm_forward, spmm_adjoint)
