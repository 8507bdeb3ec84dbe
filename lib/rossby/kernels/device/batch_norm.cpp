#include "rossby/kernels/batch_norm.hpp"

#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

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

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(batch_norm_sums, batch_norm_factors, batch_norm_forward, batch_norm_backward_sums,
                        batch_norm_backward_parameters, batch_norm_slopes, batch_norm_backward_input)
