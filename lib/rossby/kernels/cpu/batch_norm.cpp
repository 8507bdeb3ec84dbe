#include "rossby/kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/cpu/norm_sums.hpp"

namespace rossby::cpu {

template <class T>
void batch_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, const T* shift,
                     std::span<double> scratch) {
  const Index channels = x.channels;
  add_up_pairs(exec, sums, channels, x, scratch, [=](double* partial, Index i, Index b) {
    const T* from = x.at(i, b);
    for (Index c = 0; c < channels; ++c) {
      const double distance = double{from[c]} - double{shift[c]};
      partial[c] += distance;
      partial[channels + c] += distance * distance;
    }
  });
  sums[2 * channels] = static_cast<double>(x.rows * x.cols);
}

template <class T>
void batch_norm_factors(const Exec&, Index channels, const BatchNormFactors<T>& to, const double* sums,
                        const T* gain, const BatchNormRunning<T>& running) {
  for (Index c = 0; c < channels; ++c) {
    double mean = double{running.mean[c]}, variance = double{running.variance[c]};
    if (sums) {
      const double values = std::max(1.0, sums[2 * channels]), distance = sums[c] / values;
      const double keep = 1 - running.momentum, before = variance;
      mean += distance;
      variance = sums[channels + c] / values - distance * distance;
      if (variance < 0) variance = 0;
      const double unbiased = variance * values / std::max(1.0, values - 1);
      running.mean[c] = static_cast<T>(keep * double{running.mean[c]} + running.momentum * mean);
      running.variance[c] = static_cast<T>(keep * before + running.momentum * unbiased);
    }
    to.mean[c] = static_cast<T>(mean);
    to.inverse_deviation[c] = static_cast<T>(1 / std::sqrt(variance + running.epsilon));
    to.factor[c] = gain[c] * to.inverse_deviation[c];
  }
}

template <class T>
void batch_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias) {
  for_each_piece(exec, x.rows, rows_a_piece(x), x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const T* from = x.at(i, b);
        T* to = y.at(i, b);
        for (Index c = 0; c < x.channels; ++c) to[c] = (from[c] - mean[c]) * factor[c] + bias[c];
      }
  });
}

template <class T>
void batch_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, std::span<double> scratch) {
  const Index channels = x.channels;
  add_up_pairs(exec, sums, channels, x, scratch, [=](double* partial, Index i, Index b) {
    const T* from = x.at(i, b);
    const T* g = dy.at(i, b);
    for (Index c = 0; c < channels; ++c) {
      partial[c] += double{g[c]};
      partial[channels + c] += double{g[c]} * (double{from[c]} - double{mean[c]});
    }
  });
  for (Index c = 0; c < channels; ++c) sums[channels + c] *= double{inverse_deviation[c]};
}

template <class T>
void batch_norm_backward_parameters(const Exec&, Index channels, T* dgain, T* dbias, const double* sums) {
  for (Index c = 0; c < channels; ++c) {
    if (dbias) dbias[c] += static_cast<T>(sums[c]);
    if (dgain) dgain[c] += static_cast<T>(sums[channels + c]);
  }
}

template <class T>
void batch_norm_slopes(const Exec&, Index channels, T* offset, T* slope, const double* sums,
                       const double* count, const T* inverse_deviation) {
  const double over = count ? 1 / std::max(1.0, *count) : 0;
  for (Index c = 0; c < channels; ++c) {
    offset[c] = static_cast<T>(over * sums[c]);
    slope[c] = static_cast<T>(over * sums[channels + c] * double{inverse_deviation[c]});
  }
}

template <class T>
void batch_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope) {
  for_each_piece(exec, x.rows, rows_a_piece(x), 2 * x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const T* from = x.at(i, b);
        const T* g = dy.at(i, b);
        T* to = dx.at(i, b);
        for (Index c = 0; c < x.channels; ++c)
          to[c] += factor[c] * (g[c] - offset[c] - (from[c] - mean[c]) * slope[c]);
      }
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, batch_norm_sums, batch_norm_factors, batch_norm_forward, batch_norm_backward_sums,
                 batch_norm_backward_parameters, batch_norm_slopes, batch_norm_backward_input)

namespace rossby {

Index batch_norm_scratch_size(const Exec& exec, Index rows, Index channels) {
  return cpu::pairs_scratch_size(exec, rows, channels);
}

}  // namespace rossby
