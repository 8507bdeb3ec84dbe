#include "rossby/kernels/product.hpp"

#include "rossby/kernels/cpu/blas.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/bf16_product.hpp"

namespace rossby::cpu {
namespace {

constexpr Index tile_rows = 256;  // of c: BLAS packs an operand again for every tile
constexpr Index tile_cols = 2048;
constexpr Index wide = 32;  // operands are rounded to bf16 if the least of three sizes reaches this

/// The part of an operand that gives rows (or columns) [first, first + count) of the product.
template <class T>
MatrixView<const T> part(MatrixView<const T> x, bool rows, Index first, Index count) {
  return rows ? MatrixView<const T>(x.row(first), count, x.cols, x.stride)
              : MatrixView<const T>(x.data + first, x.rows, count, x.stride);
}

template <class T>
Strided<T> strided(Operand op, MatrixView<const T> x) {
  return op == Operand::plain ? Strided<T>{x.data, x.stride, 1} : Strided<T>{x.data, 1, x.stride};
}

}  // namespace

template <class T>
void matrix_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate) {
  const Index inner = op_a == Operand::plain ? a.cols : a.rows;
  if (inner == 0) {
    for (Index i = 0; !accumulate && i < c.rows; ++i) std::fill_n(c.row(i), c.cols, T{0});
    return;
  }
  const auto side = [](Operand op) { return op == Operand::plain ? Side::plain : Side::transposed; };
  const bool rounded = std::is_same_v<T, float> && exec.products == Products::bf16 &&
                       std::min({inner, c.rows, c.cols}) >= wide;
  const Index across = (c.cols + tile_cols - 1) / tile_cols;
  const Index tiles = (c.rows + tile_rows - 1) / tile_rows * across;
  for_each_piece(exec, tiles, 1, c.size() * std::min<Index>(inner, 64), [&](Index tile, Index) {
    const Index i = tile / across * tile_rows, j = tile % across * tile_cols;
    const Index rows = std::min(tile_rows, c.rows - i), cols = std::min(tile_cols, c.cols - j);
    const auto left = part(a, op_a == Operand::plain, i, rows);
    const auto right = part(b, op_b == Operand::transposed, j, cols);
    const MatrixView<T> to(c.row(i) + j, rows, cols, c.stride);
    if constexpr (std::is_same_v<T, float>)
      if (rounded)
        return bf16_products(exec.isa).multiply(rows, cols, inner, strided(op_a, left), strided(op_b, right),
                                                to.data, to.stride, accumulate);
    gemm(side(op_a), side(op_b), left, right, accumulate ? T{1} : T{0}, to);
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, matrix_product)
