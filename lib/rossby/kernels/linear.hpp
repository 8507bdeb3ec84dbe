#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Dense layers on matrices. W is (out, in) with a row stride, so it may be a block of columns of a wider
// matrix. Results do not depend on the number of threads: the shape alone determines the blocks of rows.

/// Scratch values that the two reductions over m rows need.
[[nodiscard]] Index linear_scratch_size(Index m, Index out, Index in);

/// y (m, out) = x (m, in)·Wᵀ + bias, or y += the same if `accumulate`. `bias` (out) may be null. y overlaps
/// no input.
template <class T>
void linear_forward(const Exec& exec, MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight,
                    const T* bias, bool accumulate) {
  require(y.rows == x.rows && y.cols == weight.rows && x.cols == weight.cols,
          "a dense layer maps (m, in) to (m, out) by a weight of (out, in)");
  dispatch<linear_forward<T>>(exec, y, x, weight, bias, accumulate);
}

/// dx (m, in) += dy (m, out)·W, or dx = the same without `accumulate`.
template <class T>
void linear_backward_input(const Exec& exec, MatrixView<T> dx, MatrixView<const T> dy,
                           MatrixView<const T> weight, bool accumulate = true) {
  require(dx.rows == dy.rows && dy.cols == weight.rows && dx.cols == weight.cols,
          "a dense layer's adjoint maps (m, out) to (m, in) by a weight of (out, in)");
  dispatch<linear_backward_input<T>>(exec, dx, dy, weight, accumulate);
}

/// dW (out, in) += dyᵀ (out, m)·x (m, in), summed over fixed blocks of rows. `scratch` holds at least
/// linear_scratch_size(m, out, in) values.
template <class T>
void linear_backward_weight(const Exec& exec, MatrixView<T> dweight, MatrixView<const T> dy,
                            MatrixView<const T> x, std::span<T> scratch) {
  require(x.rows == dy.rows && dy.cols == dweight.rows && x.cols == dweight.cols,
          "a weight gradient of (out, in) comes from (m, out) and (m, in)");
  require(std::ssize(scratch) >= linear_scratch_size(x.rows, dweight.rows, dweight.cols),
          "the scratch is large enough");
  dispatch<linear_backward_weight<T>>(exec, dweight, dy, x, scratch);
}

/// db (out) += Σ over rows of dy (m, out). `scratch` holds at least linear_scratch_size(m, out, 1) values.
template <class T>
void column_sum(const Exec& exec, T* dbias, MatrixView<const T> dy, std::span<T> scratch) {
  require(std::ssize(scratch) >= linear_scratch_size(dy.rows, dy.cols, 1), "the scratch is large enough");
  dispatch<column_sum<T>>(exec, dbias, dy, scratch);
}

/// y (m, out) += bias (out) in every row.
template <class T>
void bias_add(const Exec& exec, MatrixView<T> y, const T* bias) {
  dispatch<bias_add<T>>(exec, y, bias);
}

}  // namespace rossby
