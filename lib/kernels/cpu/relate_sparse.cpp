#include <algorithm>

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/cpu/small_gemm.hpp"
#include "rossby/kernels/relate_backends.hpp"

namespace rossby::cpu {
namespace {

// Rows of a tile: B·(d + w) values of each stay in the first-level cache at the widths that occur.
constexpr Index tile_rows = 64;
// Partial sums of dA: a fixed number, so that the sum's order does not depend on the number of threads.
constexpr Index groups = 32;

template <class T>
Index tile_size(Index cols, Index d, Index w) {
  return tile_rows * cols * (d + 2 * w);
}

template <class T>
void zero(T* values, Index count) {
  std::fill_n(values, count, T(0));
}

/// y += factor · x over `width` values.
template <class T>
inline void axpy(Index width, T factor, const T* __restrict x, T* __restrict y) {
  for (Index q = 0; q < width; ++q) y[q] += factor * x[q];
}

/// One tile of columns of the backward sweep.
template <class T>
struct ColumnTile {
  const SparseRelate<T>& relate;
  NodeView<const T> delta;
  NodeView<const T> z;
  Index first;  // column number of z's row 0
  Index begin;  // rows of z
  Index count;

  /// u[q] = Σ_e w_e δ[row_e] over column first + begin + q; false where the tile has no entries of this
  /// relation.
  bool transposed(int k, T* u) const {
    const CsrBlock& w = *relate.block;
    const Index width = delta.width();
    zero(u, count * width);
    bool any = false;
    for (Index q = 0; q < count; ++q) {
      const Index slot = (first + begin + q) * w.relations + k;
      for (Index s = w.t_ptr[slot]; s < w.t_ptr[slot + 1]; ++s) {
        const T weight = effective(relate.weight[w.t_entry[s]], relate.clamped);
        axpy(width, weight, delta.row(w.t_row[s]), u + q * width);
        any = true;
      }
    }
    return any;
  }

  /// dm[e] += ⟨δ[row_e], y[q]⟩.
  void sampled(int k, const T* y, T* dm) const {
    const CsrBlock& w = *relate.block;
    const Index width = delta.width();
    for (Index q = 0; q < count; ++q) {
      const Index slot = (first + begin + q) * w.relations + k;
      for (Index s = w.t_ptr[slot]; s < w.t_ptr[slot + 1]; ++s) {
        const Index e = w.t_entry[s];
        if (passes_gradient(relate.weight[e], relate.clamped))
          dm[e] += dot(width, delta.row(w.t_row[s]), y + q * width);
      }
    }
  }
};

}  // namespace

template <class T>
Index relate_sparse_workspace(const SparseRelate<T>& relate, Index cols, Index channels) {
  const Index d = relate.a.cols / std::max(relate.block->relations, 1);
  return groups * (tile_size<T>(cols, d, channels) + relate.a.rows * relate.a.cols);
}

template <class T>
void relate_sparse_forward(const Exec& exec, NodeView<T> h, const SparseRelate<T>& relate,
                           std::span<const LocalColumn> rows, NodeView<const T> owned,
                           NodeView<const T> ghost, std::span<T> workspace) {
  const CsrBlock& w = *relate.block;
  const Index d = relate.a.cols / w.relations;
  const Index width = owned.width();
  const Index tiles = (static_cast<Index>(rows.size()) + tile_rows - 1) / tile_rows;
  const Index active = std::min(groups, tiles);
#pragma omp parallel for num_threads(exec.threads) schedule(dynamic, 1) if (exec.threads > 1)
  for (Index group = 0; group < active; ++group) {
    T* context = workspace.data() + group * tile_size<T>(h.cols, d, h.channels);
    T* out = context + tile_rows * width;
    for (Index tile = tiles * group / active; tile < tiles * (group + 1) / active; ++tile) {
      const Index begin = tile * tile_rows;
      const Index count = std::min(tile_rows, static_cast<Index>(rows.size()) - begin);
      zero(out, count * h.width());
      for (int k = 0; k < w.relations; ++k) {
        zero(context, count * width);
        for (Index q = 0; q < count; ++q) {
          const Index slot = Index{rows[begin + q]} * w.relations + k;
          for (Index e = w.ptr[slot]; e < w.ptr[slot + 1]; ++e) {
            const Index c = w.column[e];
            axpy(width, effective(relate.weight[e], relate.clamped),
                 c < owned.rows ? owned.row(c) : ghost.row(c - owned.rows), context + q * width);
          }
        }
        gemm_nt(count * h.cols, h.channels, d, context, relate.a.data + k * d, relate.a.stride, out);
      }
      for (Index q = 0; q < count; ++q) axpy(h.width(), T(1), out + q * h.width(), h.row(rows[begin + q]));
    }
  }
}

template <class T>
void relate_sparse_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, T* dm,
                            const SparseRelate<T>& relate, Index first, NodeView<const T> delta,
                            NodeView<const T> z, std::span<T> workspace) {
  const int relations = relate.block->relations;
  const Index d = relate.a.cols / relations;
  const Index a_size = relate.a.rows * relate.a.cols;
  const Index tiles = (z.rows + tile_rows - 1) / tile_rows;
  const Index active = std::min(groups, tiles);
  T* partials = workspace.data() + groups * tile_size<T>(delta.cols, d, delta.channels);
  if (da.data) zero(partials, active * a_size);
#pragma omp parallel for num_threads(exec.threads) schedule(dynamic, 1) if (exec.threads > 1)
  for (Index group = 0; group < active; ++group) {
    T* u = workspace.data() + group * tile_size<T>(delta.cols, d, delta.channels);
    T* y = u + tile_rows * delta.width();
    T* partial = partials + group * a_size;
    for (Index tile = tiles * group / active; tile < tiles * (group + 1) / active; ++tile) {
      const Index begin = tile * tile_rows;
      const ColumnTile<T> columns{relate, delta, z, first, begin, std::min(tile_rows, z.rows - begin)};
      const Index m = columns.count * delta.cols;
      for (int k = 0; k < relations; ++k) {
        if (!columns.transposed(k, u)) continue;
        const T* a_k = relate.a.data + k * d;
        if (dz.data) gemm_nn(m, d, delta.channels, u, a_k, relate.a.stride, dz.row(begin));
        if (da.data) gemm_tn(delta.channels, d, m, u, z.row(begin), partial + k * d, relate.a.cols);
        if (!dm) continue;
        zero(y, m * delta.channels);
        gemm_nt(m, delta.channels, d, z.row(begin), a_k, relate.a.stride, y);
        columns.sampled(k, y, dm);
      }
    }
  }
  if (!da.data) return;
  for (Index group = 0; group < active; ++group)
    for (Index o = 0; o < da.rows; ++o)
      axpy(da.cols, T(1), partials + group * a_size + o * relate.a.cols, da.row(o));
}

#define ROSSBY_INSTANTIATE(T)                                                                               \
  template Index relate_sparse_workspace(const SparseRelate<T>&, Index, Index);                             \
  template void relate_sparse_forward(const Exec&, NodeView<T>, const SparseRelate<T>&,                     \
                                      std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>,   \
                                      std::span<T>);                                                        \
  template void relate_sparse_backward(const Exec&, NodeView<T>, MatrixView<T>, T*, const SparseRelate<T>&, \
                                       Index, NodeView<const T>, NodeView<const T>, std::span<T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby::cpu
