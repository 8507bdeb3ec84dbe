#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// y = (x − mean)·inverse_deviation·gain + bias for every (row, col), with mean and biased variance over
/// channels and inverse_deviation = 1/√(variance + epsilon). x, y (rows, cols, c), c >= 1 unless they are
/// empty; gain, bias (c); `mean` and `inverse_deviation` (rows·cols) are written for backward. epsilon > 0.
template <class T>
void layer_norm_forward(const Exec& exec, NodeView<T> y, std::span<T> mean, std::span<T> inverse_deviation,
                        NodeView<const T> x, const T* gain, const T* bias, double epsilon);

/// dx += gradient with respect to x.
template <class T>
void layer_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               std::span<const T> mean, std::span<const T> inverse_deviation, const T* gain);

/// dgain (c) += Σ dy·(x − mean)·inverse_deviation, dbias (c) += Σ dy; either may be null. Sums over fixed
/// blocks of rows; `scratch` holds layer_norm_scratch_size(rows, c) values or more.
template <class T>
void layer_norm_backward_parameters(const Exec& exec, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, std::span<const T> mean,
                                    std::span<const T> inverse_deviation, std::span<T> scratch);

[[nodiscard]] Index layer_norm_scratch_size(Index rows, Index channels);

}  // namespace rossby
