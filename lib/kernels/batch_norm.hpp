#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Normalisation of each channel over all rows and columns: Ioffe, Szegedy, "Batch normalization", ICML 2015.
// Sums are taken in double over fixed blocks of rows and left to the caller, who adds those of other ranks.
// Views are (rows, cols, c); vectors hold one value a channel. `scratch` holds batch_norm_scratch_size(rows,
// c) values or more.

/// sums (2c) = Σ (x − shift), then Σ (x − shift)²: moments about a value near the mean, so that nothing
/// cancels.
template <class T>
void batch_norm_sums(const Exec& exec, std::span<double> sums, NodeView<const T> x, const T* shift,
                     std::span<double> scratch);

/// y = (x − mean)·factor + bias; factor = gain / √(variance + epsilon).
template <class T>
void batch_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias);

/// sums (2c) = Σ dy, then Σ dy·(x − mean)·inverse_deviation: the gradients of bias and gain.
template <class T>
void batch_norm_backward_sums(const Exec& exec, std::span<double> sums, NodeView<const T> dy,
                              NodeView<const T> x, const T* mean, const T* inverse_deviation,
                              std::span<double> scratch);

/// dx += factor·(dy − offset − (x − mean)·slope); with offset = Σ dy / N and slope = inverse_deviation · Σ
/// dy·x̂ / N the gradient where the statistics are those of the N values, with zeros where they are constants.
template <class T>
void batch_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope);

[[nodiscard]] Index batch_norm_scratch_size(Index rows, Index channels);

}  // namespace rossby
