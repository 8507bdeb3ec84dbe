#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Normalisation of each channel over all rows and columns: Ioffe, Szegedy, "Batch normalization", ICML 2015.
// Sums are taken in double over fixed blocks of rows and left to the caller, who adds those of other ranks.
// Views are (rows, cols, c); vectors hold one value a channel. All arrays, those of sums among them, lie
// where the kernels compute, but for `scratch`, which holds batch_norm_scratch_size(exec, rows, c) values or
// more.

/// What normalises, one value a channel each.
template <class T>
struct BatchNormFactors {
  T *mean, *inverse_deviation, *factor;
};

/// The running statistics, and how they follow: the share of a batch in them, and what is added to a
/// variance.
template <class T>
struct BatchNormRunning {
  T *mean, *variance;
  double momentum, epsilon;
};

/// Zero on a device, which has its own.
[[nodiscard]] Index batch_norm_scratch_size(const Exec& exec, Index rows, Index channels);

/// sums (2c + 1) = Σ (x − shift), then Σ (x − shift)²: moments about a value near the mean, so that nothing
/// cancels; then the number of values of a channel.
template <class T>
void batch_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, const T* shift,
                     std::span<double> scratch) {
  require(std::ssize(scratch) >= batch_norm_scratch_size(exec, x.rows, x.channels), no_room);
  dispatch<batch_norm_sums<T>>(exec, sums, x, shift, scratch);
}

/// Of `sums` as above, of all ranks together, which were taken about the running mean: their mean,
/// 1 / √(variance + epsilon), and gain times that; the running mean and variance (unbiased) move towards
/// them. NaN goes on. `sums` null: of the running statistics, which stay.
template <class T>
void batch_norm_factors(const Exec& exec, Index channels, const BatchNormFactors<T>& to, const double* sums,
                        const T* gain, const BatchNormRunning<T>& running) {
  dispatch<batch_norm_factors<T>>(exec, channels, to, sums, gain, running);
}

/// y = (x − mean)·factor + bias
template <class T>
void batch_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias) {
  require(same_shape(y, x), shapes_differ);
  dispatch<batch_norm_forward<T>>(exec, y, x, mean, factor, bias);
}

/// sums (2c) = Σ dy, then Σ dy·(x − mean)·inverse_deviation: the gradients of bias and gain.
template <class T>
void batch_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, std::span<double> scratch) {
  require(same_shape(dy, x), shapes_differ);
  require(std::ssize(scratch) >= batch_norm_scratch_size(exec, x.rows, x.channels), no_room);
  dispatch<batch_norm_backward_sums<T>>(exec, sums, dy, x, mean, inverse_deviation, scratch);
}

/// dbias and dgain (each may be null) += those sums.
template <class T>
void batch_norm_backward_parameters(const Exec& exec, Index channels, T* dgain, T* dbias,
                                    const double* sums) {
  dispatch<batch_norm_backward_parameters<T>>(exec, channels, dgain, dbias, sums);
}

/// offset = Σ dy / N and slope = inverse_deviation · Σ dy·x̂ / N of the sums of all ranks and of the number N
/// of values that `count` points to; null: zeros.
template <class T>
void batch_norm_slopes(const Exec& exec, Index channels, T* offset, T* slope, const double* sums,
                       const double* count, const T* inverse_deviation) {
  dispatch<batch_norm_slopes<T>>(exec, channels, offset, slope, sums, count, inverse_deviation);
}

/// dx += factor·(dy − offset − (x − mean)·slope): the gradient where the statistics are those of the N values
/// that slopes were made for, with zeros where they are constants.
template <class T>
void batch_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope) {
  require(same_shape(dx, dy, x), shapes_differ);
  dispatch<batch_norm_backward_input<T>>(exec, dx, dy, x, mean, factor, offset, slope);
}

}  // namespace rossby
