#pragma once

#include <cstdint>
#include <span>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Rows of a (m, n), packed, become softmax(relu(row)) in place; positive (m·n, where the data lie) keeps
/// where relu lets gradients through. A NaN spoils its row.
template <class T>
void softmax_relu_forward(const Exec& exec, MatrixView<T> a, std::span<std::uint8_t> positive);

/// Its adjoint in place: d becomes the gradient of the scores; a is what forward left.
template <class T>
void softmax_relu_backward(const Exec& exec, MatrixView<T> d, MatrixView<const T> a,
                           std::span<const std::uint8_t> positive);

}  // namespace rossby
