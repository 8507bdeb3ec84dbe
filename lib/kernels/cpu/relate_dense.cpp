#include <algorithm>

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/cpu/small_gemm.hpp"
#include "rossby/kernels/relate_backends.hpp"

namespace rossby::cpu {
namespace {

constexpr Index tile_rows = 16;  // rows of W that are clamped, used and forgotten together

template <class T>
struct Tile {
  const DenseRelate<T>& relate;
  int k;
  Index begin;
  Index count;

  [[nodiscard]] Index offset() const { return (k * relate.rows + begin) * relate.columns; }
  [[nodiscard]] Index size() const { return count * relate.columns; }

  /// The effective weights of the tile: in place where nothing changes them, else in `scratch`.
  [[nodiscard]] const T* weights(T* scratch) const {
    const T* stored = relate.weight + offset();
    if (!relate.clamped && !relate.pattern) return stored;
    for (Index e = 0; e < size(); ++e) scratch[e] = effective(stored[e], relate.clamped);
    if (relate.pattern) {
      const std::uint8_t* pattern = relate.pattern + offset();
      for (Index e = 0; e < size(); ++e) scratch[e] = pattern[e] ? scratch[e] : T(0);
    }
    return scratch;
  }

  /// dm += gradient where the weight passes it.
  void add_gradient(const T* gradient, T* dm) const {
    const T* stored = relate.weight + offset();
    const std::uint8_t* pattern = relate.pattern ? relate.pattern + offset() : nullptr;
    T* out = dm + offset();
    for (Index e = 0; e < size(); ++e)
      if (passes_gradient(stored[e], relate.clamped) && (!pattern || pattern[e])) out[e] += gradient[e];
  }
};

template <class T, class Visit>
void each_tile(const DenseRelate<T>& relate, int k, const Visit& visit) {
  for (Index begin = 0; begin < relate.rows; begin += tile_rows)
    visit(Tile<T>{relate, k, begin, std::min(tile_rows, relate.rows - begin)});
}

}  // namespace

template <class T>
Index relate_dense_workspace(const DenseRelate<T>& relate, Index cols, Index channels) {
  const Index d = relate.a.cols / std::max(relate.relations, 1);
  return 2 * tile_rows * relate.columns + tile_rows * cols * d + 2 * relate.columns * cols * channels;
}

template <class T>
void relate_dense_forward(const Exec&, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                          std::span<T> workspace) {
  const Index d = relate.a.cols / relate.relations;
  T* scratch = workspace.data();
  T* context = scratch + tile_rows * relate.columns;
  for (int k = 0; k < relate.relations; ++k)
    each_tile(relate, k, [&](const Tile<T>& tile) {
      blas_gemm(CblasNoTrans, CblasNoTrans, tile.count, z.width(), relate.columns, T(1),
                tile.weights(scratch), relate.columns, z.data, z.width(), T(0), context, z.width());
      gemm_nt(tile.count * h.cols, h.channels, d, context, relate.a.data + k * d, relate.a.stride,
              h.row(tile.begin));
    });
}

template <class T>
void relate_dense_backward(const Exec&, NodeView<T> dz, MatrixView<T> da, T* dm, const DenseRelate<T>& relate,
                           NodeView<const T> delta, NodeView<const T> z, std::span<T> workspace) {
  const Index d = relate.a.cols / relate.relations;
  const Index width = delta.width();
  T* scratch = workspace.data();
  T* gradient = scratch + tile_rows * relate.columns;
  T* u = gradient + tile_rows * relate.columns;
  T* y = u + relate.columns * width;
  for (int k = 0; k < relate.relations; ++k) {
    const T* a_k = relate.a.data + k * d;
    std::fill_n(u, relate.columns * width, T(0));
    if (dm) {
      std::fill_n(y, relate.columns * width, T(0));
      gemm_nt(relate.columns * z.cols, delta.channels, d, z.data, a_k, relate.a.stride, y);
    }
    each_tile(relate, k, [&](const Tile<T>& tile) {
      blas_gemm(CblasTrans, CblasNoTrans, relate.columns, width, tile.count, T(1), tile.weights(scratch),
                relate.columns, delta.row(tile.begin), width, T(1), u, width);
      if (!dm) return;
      blas_gemm(CblasNoTrans, CblasTrans, tile.count, relate.columns, width, T(1), delta.row(tile.begin),
                width, y, width, T(0), gradient, relate.columns);
      tile.add_gradient(gradient, dm);
    });
    if (dz.data) gemm_nn(relate.columns * z.cols, d, delta.channels, u, a_k, relate.a.stride, dz.data);
    if (da.data) gemm_tn(delta.channels, d, relate.columns * z.cols, u, z.data, da.data + k * d, da.stride);
  }
}

#define ROSSBY_INSTANTIATE(T)                                                                             \
  template Index relate_dense_workspace(const DenseRelate<T>&, Index, Index);                             \
  template void relate_dense_forward(const Exec&, NodeView<T>, const DenseRelate<T>&, NodeView<const T>,  \
                                     std::span<T>);                                                       \
  template void relate_dense_backward(const Exec&, NodeView<T>, MatrixView<T>, T*, const DenseRelate<T>&, \
                                      NodeView<const T>, NodeView<const T>, std::span<T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby::cpu
