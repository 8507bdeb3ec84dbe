#pragma once

#include <cstdint>
#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Rows of a (m, n), packed, become softmax(relu(row)) in place. `positive` (m·n, in the memory of the back
/// end) stores which entries relu passes gradient through. A NaN makes its whole row NaN.
template <class T>
void softmax_relu_forward(const Exec& exec, MatrixView<T> a, std::span<std::uint8_t> positive) {
  require(a.stride == a.cols || a.rows <= 1, "rows of a softmax are packed");
  require(std::ssize(positive) >= a.size(), "a flag for every score");
  if (a.size() == 0) return;
  dispatch<softmax_relu_forward<T>>(exec, a, positive);
}

/// The adjoint in place: d becomes the gradient of the scores; a is forward's result.
template <class T>
void softmax_relu_backward(const Exec& exec, MatrixView<T> d, MatrixView<const T> a,
                           std::span<const std::uint8_t> positive) {
  require(d.rows == a.rows && d.cols == a.cols && std::ssize(positive) >= a.size(),
          "gradients, values and flags of a softmax have one shape");
  if (a.size() == 0) return;
  dispatch<softmax_relu_backward<T>>(exec, d, a, positive);
}

}  // namespace rossby
