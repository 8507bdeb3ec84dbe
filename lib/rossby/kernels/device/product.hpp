#pragma once

#include <type_traits>

#include "rossby/base/bf16.hpp"
#include "rossby/kernels/device/sums.hpp"
#include "rossby/kernels/device/tiles.hpp"
#include "rossby/kernels/product.hpp"

#if defined(__CUDACC__)
#include "rossby/kernels/cuda/blas.hpp"
#endif

namespace rossby::ROSSBY_DEVICE {

/// An operand in the form that products take.
template <class T>
ROSSBY_ON_DEVICE T as_operand(T value, Products products) {
  if constexpr (std::is_same_v<T, float>) {
    if (products == Products::bf16) return widen(round_nearest(value));
    if (products == Products::tf32) return round_tf32(value);
  }
  return value;
}

/// Element (i, j) of op(m).
template <class T>
struct Element {
  MatrixView<const T> m;
  bool transposed;
  Products products;
  ROSSBY_ON_DEVICE T operator()(Index i, Index j) const {
    return as_operand(transposed ? m.row(j)[i] : m.row(i)[j], products);
  }
};

/// c = op(a)·op(b), or c += the same, by own tiles.
template <class T>
void own_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                 MatrixView<const T> b, bool accumulate) {
  const bool flip_a = op_a == Operand::transposed, flip_b = op_b == Operand::transposed;
  tile_product<T>(exec, c.rows, c.cols, flip_a ? a.rows : a.cols, TileOrder{flip_a, flip_b},
                  Element<T>{a, flip_a, exec.device->products()},
                  Element<T>{b, flip_b, exec.device->products()},
                  [=] ROSSBY_ON_DEVICE(Index i, Index j, T value) {
                    T& to = c.row(i)[j];
                    to = accumulate ? to + value : value;
                  });
}

template <class T>
void product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
             MatrixView<const T> b, bool accumulate) {
  if (c.size() == 0) return;
#if defined(__CUDACC__)
  if (blas_product(exec, c, op_a, a, op_b, b, accumulate)) return;
#endif
  own_product(exec, c, op_a, a, op_b, b, accumulate);
}

}  // namespace rossby::ROSSBY_DEVICE
