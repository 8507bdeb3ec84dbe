#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Normalisation of each column over all rows and channels: Ba, Kiros, Hinton, "Layer normalization", 2016, on
// node data as in STGCN (Yu, Yin, Zhu, IJCAI 2018). Sums are taken in double over fixed blocks of rows; the
// caller adds the sums of other row blocks. Views are (rows, cols, c). `mean` and `inverse_deviation` hold
// one value per column; gain, bias and their gradients are (rows, c). All arrays, sums included, lie in the
// memory of the back end. `scratch` lies on the host and holds at least layer_norm_scratch_size(exec, rows,
// cols) values. Shapes are checked; NaN propagates.

/// Zero on a device, which has scratch memory of its own.
[[nodiscard]] Index layer_norm_scratch_size(const Exec& exec, Index rows, Index cols);

/// sums (2·cols + 1) = Σ x of each column, then Σ x², then the number of values per column. Moments about
/// zero let one allreduce carry both. In double, the relative error of the variance is about 1e-16·(1 + mean²
/// / variance).
template <class T>
void layer_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, std::span<double> scratch) {
  require(std::ssize(scratch) >= layer_norm_scratch_size(exec, x.rows, x.cols), no_room);
  dispatch<layer_norm_sums<T>>(exec, sums, x, scratch);
}

/// mean and 1 / √(variance + epsilon) from `sums` of all row blocks; the variance is biased. epsilon > 0.
template <class T>
void layer_norm_moments(const Exec& exec, Index cols, T* mean, T* inverse_deviation, const double* sums,
                        double epsilon) {
  require(epsilon > 0, "a layer normalisation has an epsilon above 0");
  dispatch<layer_norm_moments<T>>(exec, cols, mean, inverse_deviation, sums, epsilon);
}

/// y = (x − mean)·inverse_deviation·gain + bias
template <class T>
void layer_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean,
                        const T* inverse_deviation, const T* gain, const T* bias) {
  require(same_shape(y, x), shapes_differ);
  dispatch<layer_norm_forward<T>>(exec, y, x, mean, inverse_deviation, gain, bias);
}

/// sums (2·cols) = Σ dy·gain of each column, then Σ dy·gain·x̂, with x̂ = (x − mean)·inverse_deviation.
template <class T>
void layer_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, const T* gain,
                              std::span<double> scratch) {
  require(same_shape(dy, x), shapes_differ);
  require(std::ssize(scratch) >= layer_norm_scratch_size(exec, x.rows, x.cols), no_room);
  dispatch<layer_norm_backward_sums<T>>(exec, sums, dy, x, mean, inverse_deviation, gain, scratch);
}

/// dgain += Σ dy·x̂ and dbias += Σ dy over columns; either may be null.
template <class T>
void layer_norm_backward_parameters(const Exec& exec, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, const T* mean, const T* inverse_deviation) {
  require(same_shape(dy, x), shapes_differ);
  dispatch<layer_norm_backward_parameters<T>>(exec, dgain, dbias, dy, x, mean, inverse_deviation);
}

/// dx += inverse_deviation·(dy·gain − (Σ dy·gain + x̂·Σ dy·gain·x̂) / N), with the sums of all row blocks and
/// the number N of values per column that `count` points to.
template <class T>
void layer_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* inverse_deviation, const T* gain, const double* sums,
                               const double* count) {
  require(same_shape(dx, dy, x), shapes_differ);
  dispatch<layer_norm_backward_input<T>>(exec, dx, dy, x, mean, inverse_deviation, gain, sums, count);
}

}  // namespace rossby
