#include "rossby/kernels/layer_norm.hpp"

#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void layer_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, std::span<double>) {
  const Index cols = x.cols;
  // A thread takes all channels of a row, because they are contiguous.
  keep_sums(exec, sums, 2 * cols, x.rows, [=] ROSSBY_ON_DEVICE(Index i, Index o) {
    const T* from = x.at(i, o < cols ? o : o - cols);
    double sum = 0;
    for (Index c = 0; c < x.channels; ++c) {
      const auto value = static_cast<double>(from[c]);
      sum += o < cols ? value : value * value;
    }
    return sum;
  });
  const auto count = static_cast<double>(x.rows * x.channels);
  for_each(exec, 1, [=] ROSSBY_ON_DEVICE(Index) { sums[2 * cols] = count; });
}

template <class T>
void layer_norm_moments(const Exec& exec, Index cols, T* mean, T* inverse_deviation, const double* sums,
                        double epsilon) {
  for_each(exec, cols, [=] ROSSBY_ON_DEVICE(Index b) {
    const double values = sums[2 * cols] > 1 ? sums[2 * cols] : 1;
    const double average = sums[b] / values;
    double variance = sums[cols + b] / values - average * average;
    if (variance < 0) variance = 0;  // NaN stays NaN
    mean[b] = static_cast<T>(average);
    inverse_deviation[b] = static_cast<T>(1 / std::sqrt(variance + epsilon));
  });
}

template <class T>
void layer_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean,
                        const T* inverse_deviation, const T* gain, const T* bias) {
  for_each_entry(exec, numbered(y), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const Index place = i * x.channels + c;
    y.at(i, b)[c] = (x.at(i, b)[c] - mean[b]) * inverse_deviation[b] * gain[place] + bias[place];
  });
}

template <class T>
void layer_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, const T* gain, std::span<double>) {
  const Index cols = x.cols;
  keep_sums(exec, sums, 2 * cols, x.rows, [=] ROSSBY_ON_DEVICE(Index i, Index o) {
    const Index b = o < cols ? o : o - cols;
    const T *from = x.at(i, b), *g = dy.at(i, b), *factor = gain + i * x.channels;
    double sum = 0;
    for (Index c = 0; c < x.channels; ++c) {
      const double slope = static_cast<double>(g[c]) * static_cast<double>(factor[c]);
      sum += o < cols ? slope : slope * (static_cast<double>(from[c]) - static_cast<double>(mean[b]));
    }
    return o < cols ? sum : sum * static_cast<double>(inverse_deviation[b]);
  });
}

/// One thread per row and channel, which loops over the columns.
template <class T>
void layer_norm_backward_parameters(const Exec& exec, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, const T* mean, const T* inverse_deviation) {
  for_each(exec, x.rows * x.channels, [=] ROSSBY_ON_DEVICE(Index k) {
    const Index i = k / x.channels, c = k % x.channels;
    double of_gain = 0, of_bias = 0;
    for (Index b = 0; b < x.cols; ++b) {
      const auto g = static_cast<double>(dy.at(i, b)[c]);
      of_gain += g * static_cast<double>((x.at(i, b)[c] - mean[b]) * inverse_deviation[b]);
      of_bias += g;
    }
    if (dgain) dgain[k] = static_cast<T>(static_cast<double>(dgain[k]) + of_gain);
    if (dbias) dbias[k] = static_cast<T>(static_cast<double>(dbias[k]) + of_bias);
  });
}

template <class T>
void layer_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* inverse_deviation, const T* gain, const double* sums,
                               const double* count) {
  for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const double values = *count > 1 ? *count : 1;
    const T offset = static_cast<T>(sums[b] / values), slope = static_cast<T>(sums[x.cols + b] / values);
    const T inverse = inverse_deviation[b], normal = (x.at(i, b)[c] - mean[b]) * inverse;
    dx.at(i, b)[c] += inverse * (dy.at(i, b)[c] * gain[i * x.channels + c] - offset - normal * slope);
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(layer_norm_sums, layer_norm_moments, layer_norm_forward, layer_norm_backward_sums,
                        layer_norm_backward_parameters, layer_norm_backward_input)
