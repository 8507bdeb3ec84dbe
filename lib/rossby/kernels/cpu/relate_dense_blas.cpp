#include "rossby/kernels/cpu/blas.hpp"
#include "rossby/kernels/cpu/dense_parts.hpp"

// Dense relations with BLAS: a tile of W is clamped into a buffer that the product reads.

namespace rossby::cpu {
namespace {

constexpr Index tile_rows = 128;
constexpr Index tile_columns = 256;

template <class T>
struct TileBuffer {
  alignas(64) T values[tile_rows * tile_columns];

  /// Effective weights (rows, columns) from `begin`, `first` of relation k, packed; returns their sum.
  template <class S>
  double fill(const S* weight, const DenseRelate<T>& relate, int k, Index begin, Index rows, Index first,
              Index columns) {
    double sum = 0;
    for (Index i = 0; i < rows; ++i) {
      const Index at = (k * relate.rows + begin + i) * relate.columns + first;
      const S* stored = weight + at;
      T* out = values + i * columns;
      for (Index j = 0; j < columns; ++j) out[j] = effective(widen(stored[j]), relate.clamped);
      if (relate.pattern)
        for (Index j = 0; j < columns; ++j) out[j] = relate.pattern[at + j] ? out[j] : T(0);
      sum += sum_lanes(columns, [&](Index j) { return double{out[j]}; });
    }
    return sum;
  }
};

}  // namespace

template <class S, class T>
double blas_contexts(const Exec& exec, T* context, const DenseRelate<T>& relate, NodeView<const T> z) {
  const Index width = z.width();
  const Index tiles = (relate.rows + tile_rows - 1) / tile_rows;
  const Index work = relate.relations * relate.rows * relate.columns;
  return reduce_blocks(exec, relate.relations * tiles, 1, work, [&](Index from, Index to) {
    TileBuffer<T> tile;
    double sum = 0;
    for (Index t = from; t < to; ++t) {
      const int k = static_cast<int>(t / tiles);
      const Index begin = t % tiles * tile_rows;
      const Index rows = std::min(tile_rows, relate.rows - begin);
      for (Index first = 0; first < relate.columns; first += tile_columns) {
        const Index columns = std::min(tile_columns, relate.columns - first);
        sum += tile.fill(stored_weight<S>(relate), relate, k, begin, rows, first, columns);
        gemm(Side::plain, Side::plain, {tile.values, rows, columns}, {z.data + first * width, columns, width},
             first == 0 ? T(0) : T(1), {context + (k * relate.rows + begin) * width, rows, width});
      }
    }
    return sum;
  });
}

template <class S, class T>
double blas_columns(const Exec& exec, NodeView<T> dz, const DenseGradient<T>& dm,
                    const DenseRelate<T>& relate, const T* g, NodeView<const T> z) {
  const DenseSinkArguments<S> sink(dm);
  const auto pass = kernels_of<DenseKernels, S>(exec.isa).sink[static_cast<int>(sink.sink)];
  const Index width = z.width();
  const Index blocks = (relate.columns + tile_columns - 1) / tile_columns;
  const auto tile_backward = [&](TileBuffer<T>& buffer, int k, Index begin, Index first, Index columns) {
    const Index rows = std::min(tile_rows, relate.rows - begin);
    const T* g_tile = g + (k * relate.rows + begin) * width;
    if (dz.data) {
      buffer.fill(stored_weight<S>(relate), relate, k, begin, rows, first, columns);
      gemm(Side::transposed, Side::plain, {buffer.values, rows, columns}, {g_tile, rows, width}, T(1),
           {dz.data + first * width, columns, width});
    }
    if (sink.sink == DenseSink::none) return 0.0;
    gemm(Side::plain, Side::transposed, {g_tile, rows, width}, {z.data + first * width, columns, width}, T(0),
         {buffer.values, rows, columns});
    DenseBackward<S> b = sink.block(relate, dm, k, begin, first, columns);
    b.rows = rows;
    pass(b, buffer.values, columns);
    return b.squares;
  };
  return reduce_blocks(
      exec, blocks, 1, relate.relations * relate.rows * relate.columns, [&](Index from, Index to) {
        TileBuffer<T> buffer;
        double squares = 0;
        for (Index c = from; c < to; ++c)
          for (int k = 0; k < relate.relations; ++k)
            for (Index begin = 0; begin < relate.rows; begin += tile_rows)
              squares += tile_backward(buffer, k, begin, c * tile_columns,
                                       std::min(tile_columns, relate.columns - c * tile_columns));
        return squares;
      });
}

#define ROSSBY_INSTANTIATE(S, T)                                                                            \
  template double blas_contexts<S>(const Exec&, T*, const DenseRelate<T>&, NodeView<const T>);              \
  template double blas_columns<S>(const Exec&, NodeView<T>, const DenseGradient<T>&, const DenseRelate<T>&, \
                                  const T*, NodeView<const T>);
ROSSBY_INSTANTIATE(float, float)
ROSSBY_INSTANTIATE(double, double)
ROSSBY_INSTANTIATE(Bf16, float)

}  // namespace rossby::cpu
