#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Normalisation of each channel over all rows and columns: Ioffe, Szegedy, "Batch normalization", ICML 2015.
// Sums are taken in double over fixed blocks of rows; the caller adds the sums of other ranks. Views are
// (rows, cols, c); vectors hold one value per channel. All arrays, sums included, lie in the memory of the
// back end. `scratch` lies on the host and holds at least batch_norm_scratch_size(exec, rows, c) values.

/// The constants of a normalisation, one value per channel each.
template <class T>
struct BatchNormFactors {
  T *mean, *inverse_deviation, *factor;
};

/// The running statistics, the weight of a new batch in them, and the epsilon added to a variance.
template <class T>
struct BatchNormRunning {
  T *mean, *variance;
  double momentum, epsilon;
};

/// Zero on a device, which has scratch memory of its own.
[[nodiscard]] Index batch_norm_scratch_size(const Exec& exec, Index rows, Index channels);

/// sums (2c + 1) = Σ (x − shift), then Σ (x − shift)², then the number of values per channel. The shift is
/// close to the mean, so that nothing cancels.
template <class T>
void batch_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, const T* shift,
                     std::span<double> scratch) {
  require(std::ssize(scratch) >= batch_norm_scratch_size(exec, x.rows, x.channels), no_room);
  dispatch<batch_norm_sums<T>>(exec, sums, x, shift, scratch);
}

/// Computes mean, 1 / √(variance + epsilon) and factor = gain / √(variance + epsilon) from `sums` of all
/// ranks, taken about the running mean. Moves the running mean and the unbiased running variance towards
/// them. NaN propagates. If `sums` is null, uses the running statistics and leaves them unchanged.
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

/// dbias and dgain += these sums; either may be null.
template <class T>
void batch_norm_backward_parameters(const Exec& exec, Index channels, T* dgain, T* dbias,
                                    const double* sums) {
  dispatch<batch_norm_backward_parameters<T>>(exec, channels, dgain, dbias, sums);
}

/// offset = Σ dy / N and slope = inverse_deviation · Σ dy·x̂ / N, from the sums of all ranks and the number N
/// of values that `count` points to. If `count` is null, both are zero.
template <class T>
void batch_norm_slopes(const Exec& exec, Index channels, T* offset, T* slope, const double* sums,
                       const double* count, const T* inverse_deviation) {
  dispatch<batch_norm_slopes<T>>(exec, channels, offset, slope, sums, count, inverse_deviation);
}

/// dx += factor·(dy − offset − (x − mean)·slope). Pass the offset and slope of the N values if the statistics
/// depend on them, and zeros if the statistics are constants.
template <class T>
void batch_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope) {
  require(same_shape(dx, dy, x), shapes_differ);
  dispatch<batch_norm_backward_input<T>>(exec, dx, dy, x, mean, factor, offset, slope);
}

}  // namespace rossby
