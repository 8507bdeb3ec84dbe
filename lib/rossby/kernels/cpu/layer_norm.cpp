#include "rossby/kernels/layer_norm.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/cpu/norm_sums.hpp"

namespace rossby::cpu {
template <class T>
void layer_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, std::span<double> scratch) {
  const Index cols = x.cols;
  add_up_pairs(exec, sums, cols, x, scratch, [=](double* partial, Index i, Index b) {
    const T* from = x.at(i, b);
    partial[b] += sum_lanes(x.channels, [from](Index c) { return double{from[c]}; });
    partial[cols + b] += sum_lanes(x.channels, [from](Index c) { return double{from[c]} * double{from[c]}; });
  });
  sums[2 * x.cols] = static_cast<double>(x.rows * x.channels);
}

template <class T>
void layer_norm_moments(const Exec&, Index cols, T* mean, T* inverse_deviation, const double* sums,
                        double epsilon) {
  const double over = 1 / std::max(1.0, sums[2 * cols]);
  for (Index b = 0; b < cols; ++b) {
    const double average = sums[b] * over;
    double variance = sums[cols + b] * over - average * average;
    if (variance < 0) variance = 0;  // NaN stays NaN
    mean[b] = static_cast<T>(average);
    inverse_deviation[b] = static_cast<T>(1 / std::sqrt(variance + epsilon));
  }
}

template <class T>
void layer_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean,
                        const T* inverse_deviation, const T* gain, const T* bias) {
  for_each_piece(exec, x.rows, rows_a_piece(x), x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const T *factor = gain + i * x.channels, *shift = bias + i * x.channels;
      for (Index b = 0; b < x.cols; ++b) {
        const T* from = x.at(i, b);
        T* to = y.at(i, b);
        const T average = mean[b], inverse = inverse_deviation[b];
        for (Index c = 0; c < x.channels; ++c) to[c] = (from[c] - average) * inverse * factor[c] + shift[c];
      }
    }
  });
}

template <class T>
void layer_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, const T* gain,
                              std::span<double> scratch) {
  const Index cols = x.cols;
  add_up_pairs(exec, sums, cols, x, scratch, [=](double* partial, Index i, Index b) {
    const T *from = x.at(i, b), *g = dy.at(i, b), *factor = gain + i * x.channels;
    const double average = mean[b];
    partial[b] += sum_lanes(x.channels, [=](Index c) { return double{g[c]} * double{factor[c]}; });
    partial[cols + b] += sum_lanes(
        x.channels, [=](Index c) { return double{g[c]} * double{factor[c]} * (double{from[c]} - average); });
  });
  for (Index b = 0; b < x.cols; ++b) sums[x.cols + b] *= double{inverse_deviation[b]};
}

template <class T>
void layer_norm_backward_parameters(const Exec& exec, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, const T* mean, const T* inverse_deviation) {
  for_each_piece(exec, x.rows, rows_a_piece(x), 2 * x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const T *from = x.at(i, b), *g = dy.at(i, b);
        const T average = mean[b], inverse = inverse_deviation[b];
        T* to = dgain + i * x.channels;
        for (Index c = 0; dgain && c < x.channels; ++c) to[c] += g[c] * ((from[c] - average) * inverse);
        to = dbias + i * x.channels;
        for (Index c = 0; dbias && c < x.channels; ++c) to[c] += g[c];
      }
  });
}

template <class T>
void layer_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* inverse_deviation, const T* gain, const double* sums,
                               const double* count) {
  const double over = 1 / std::max(1.0, *count);
  for_each_piece(exec, x.rows, rows_a_piece(x), 2 * x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const T* factor = gain + i * x.channels;
      for (Index b = 0; b < x.cols; ++b) {
        const T *from = x.at(i, b), *g = dy.at(i, b);
        T* to = dx.at(i, b);
        const T average = mean[b], inverse = inverse_deviation[b];
        const T offset = static_cast<T>(sums[b] * over), slope = static_cast<T>(sums[x.cols + b] * over);
        for (Index c = 0; c < x.channels; ++c)
          to[c] += inverse * (g[c] * factor[c] - offset - (from[c] - average) * inverse * slope);
      }
    }
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, layer_norm_sums, layer_norm_moments, layer_norm_forward, layer_norm_backward_sums,
                 layer_norm_backward_parameters, layer_norm_backward_input)

namespace rossby {

Index layer_norm_scratch_size(const Exec& exec, Index rows, Index cols) {
  return cpu::pairs_scratch_size(exec, rows, cols);
}

}  // namespace rossby
