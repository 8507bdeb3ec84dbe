#include <cmath>

#include "rossby/kernels/batch_norm.hpp"
#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"
#include "rossby/kernels/layer_norm.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class Term>
void keep_sums(const Exec& exec, double* to, Index count, Index rows, const Term& term) {
  sum_rows(exec, rows, count, term, [=] ROSSBY_ON_DEVICE(Index o, double sum) { to[o] = sum; });
}

template <class T>
void layer_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, std::span<double>) {
  const Index cols = x.cols;
  // A thread takes all channels of a row: they lie side by side.
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

/// A thread a row and channel, which goes through the columns.
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

template <class T>
void batch_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, const T* shift, std::span<double>) {
  const Index channels = x.channels;
  keep_sums(exec, sums, 2 * channels, x.rows * x.cols, [=] ROSSBY_ON_DEVICE(Index k, Index o) {
    const Index c = o < channels ? o : o - channels;
    const double distance =
        static_cast<double>(x.at(k / x.cols, k % x.cols)[c]) - static_cast<double>(shift[c]);
    return o < channels ? distance : distance * distance;
  });
  const auto count = static_cast<double>(x.rows * x.cols);
  for_each(exec, 1, [=] ROSSBY_ON_DEVICE(Index) { sums[2 * channels] = count; });
}

template <class T>
void batch_norm_factors(const Exec& exec, Index channels, const BatchNormFactors<T>& to, const double* sums,
                        const T* gain, const BatchNormRunning<T>& running) {
  const BatchNormFactors<T> out = to;
  const BatchNormRunning<T> of = running;
  for_each(exec, channels, [=] ROSSBY_ON_DEVICE(Index c) {
    double mean = static_cast<double>(of.mean[c]), variance = static_cast<double>(of.variance[c]);
    if (sums) {
      const double values = sums[2 * channels] > 1 ? sums[2 * channels] : 1;
      const double distance = sums[c] / values, square = sums[channels + c] / values - distance * distance;
      const double keep = 1 - of.momentum, others = values > 2 ? values - 1 : 1;
      const double before = variance;
      mean += distance;
      variance = square > 0 ? square : square != square ? square : 0;  // NaN stays NaN
      of.mean[c] = static_cast<T>(keep * static_cast<double>(of.mean[c]) + of.momentum * mean);
      of.variance[c] = static_cast<T>(keep * before + of.momentum * (variance * values / others));
    }
    out.mean[c] = static_cast<T>(mean);
    out.inverse_deviation[c] = static_cast<T>(1 / std::sqrt(variance + of.epsilon));
    out.factor[c] = gain[c] * out.inverse_deviation[c];
  });
}

template <class T>
void batch_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias) {
  for_each_entry(exec, numbered(y), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    y.at(i, b)[c] = (x.at(i, b)[c] - mean[c]) * factor[c] + bias[c];
  });
}

template <class T>
void batch_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, std::span<double>) {
  const Index channels = x.channels;
  keep_sums(exec, sums, 2 * channels, x.rows * x.cols, [=] ROSSBY_ON_DEVICE(Index k, Index o) {
    const Index i = k / x.cols, b = k % x.cols, c = o < channels ? o : o - channels;
    const double g = static_cast<double>(dy.at(i, b)[c]);
    if (o < channels) return g;
    return g * (static_cast<double>(x.at(i, b)[c]) - static_cast<double>(mean[c])) *
           static_cast<double>(inverse_deviation[c]);
  });
}

template <class T>
void batch_norm_backward_parameters(const Exec& exec, Index channels, T* dgain, T* dbias,
                                    const double* sums) {
  for_each(exec, channels, [=] ROSSBY_ON_DEVICE(Index c) {
    if (dbias) dbias[c] += static_cast<T>(sums[c]);
    if (dgain) dgain[c] += static_cast<T>(sums[channels + c]);
  });
}

template <class T>
void batch_norm_slopes(const Exec& exec, Index channels, T* offset, T* slope, const double* sums,
                       const double* count, const T* inverse_deviation) {
  for_each(exec, channels, [=] ROSSBY_ON_DEVICE(Index c) {
    const double over = count ? 1 / (*count > 1 ? *count : 1) : 0;
    offset[c] = static_cast<T>(over * sums[c]);
    slope[c] = static_cast<T>(over * sums[channels + c] * static_cast<double>(inverse_deviation[c]));
  });
}

template <class T>
void batch_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope) {
  for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    dx.at(i, b)[c] += factor[c] * (dy.at(i, b)[c] - offset[c] - (x.at(i, b)[c] - mean[c]) * slope[c]);
  });
}

ROSSBY_FOR_SCALARS(ROSSBY_LAYER_NORM)
ROSSBY_FOR_SCALARS(ROSSBY_BATCH_NORM)

}  // namespace rossby::ROSSBY_DEVICE
