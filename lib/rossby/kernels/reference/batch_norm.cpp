#include "rossby/kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void batch_norm_sums(const Exec&, double* sums, NodeView<const T> x, const T* shift, std::span<double>) {
  std::fill_n(sums, 2 * x.channels, 0.0);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double distance = double{entry(x, i, b, c)} - double{shift[c]};
    sums[c] += distance;
    sums[x.channels + c] += distance * distance;
  });
  sums[2 * x.channels] = static_cast<double>(x.rows * x.cols);
}

template <class T>
void batch_norm_factors(const Exec&, Index channels, const BatchNormFactors<T>& to, const double* sums,
                        const T* gain, const BatchNormRunning<T>& running) {
  const double n = sums ? std::max(1.0, sums[2 * channels]) : 1;
  for (Index c = 0; c < channels; ++c) {
    double mean = running.mean[c], variance = running.variance[c];
    if (sums) {
      const double first = sums[c] / n, second = sums[channels + c] / n;
      mean = running.mean[c] + first;
      variance = second > first * first ? second - first * first : 0;
      if (std::isnan(second - first * first)) variance = second - first * first;
      const double share = running.momentum;
      running.mean[c] = static_cast<T>((1 - share) * running.mean[c] + share * mean);
      running.variance[c] =
          static_cast<T>((1 - share) * running.variance[c] + share * variance * n / std::max(1.0, n - 1));
    }
    to.mean[c] = static_cast<T>(mean);
    to.inverse_deviation[c] = static_cast<T>(1 / std::sqrt(variance + running.epsilon));
    to.factor[c] = static_cast<T>(gain[c] / std::sqrt(variance + running.epsilon));
  }
}

template <class T>
void batch_norm_forward(const Exec&, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias) {
  for_each_entry(x, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>((double{entry(x, i, b, c)} - double{mean[c]}) * factor[c] + bias[c]);
  });
}

template <class T>
void batch_norm_backward_sums(const Exec&, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, std::span<double>) {
  std::fill_n(sums, 2 * x.channels, 0.0);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double g = entry(dy, i, b, c);
    sums[c] += g;
    sums[x.channels + c] += g * (double{entry(x, i, b, c)} - double{mean[c]}) * double{inverse_deviation[c]};
  });
}

template <class T>
void batch_norm_backward_parameters(const Exec&, Index channels, T* dgain, T* dbias, const double* sums) {
  for (Index c = 0; c < channels && dbias; ++c) dbias[c] = static_cast<T>(dbias[c] + sums[c]);
  for (Index c = 0; c < channels && dgain; ++c) dgain[c] = static_cast<T>(dgain[c] + sums[channels + c]);
}

template <class T>
void batch_norm_slopes(const Exec&, Index channels, T* offset, T* slope, const double* sums,
                       const double* count, const T* inverse_deviation) {
  for (Index c = 0; c < channels; ++c) {
    offset[c] = count ? static_cast<T>(sums[c] / std::max(1.0, *count)) : T(0);
    slope[c] =
        count ? static_cast<T>(sums[channels + c] / std::max(1.0, *count) * inverse_deviation[c]) : T(0);
  }
}

template <class T>
void batch_norm_backward_input(const Exec&, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope) {
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double distance = double{entry(x, i, b, c)} - double{mean[c]};
    T& to = entry(dx, i, b, c);
    to = static_cast<T>(to + factor[c] * (double{entry(dy, i, b, c)} - offset[c] - distance * slope[c]));
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, batch_norm_sums, batch_norm_factors, batch_norm_forward, batch_norm_backward_sums,
                 batch_norm_backward_parameters, batch_norm_slopes, batch_norm_backward_input)
