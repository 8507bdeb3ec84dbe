#include "rossby/kernels/layer_norm.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {
namespace {

/// Place of (row i, channel c) in a table (rows, c).
template <class T>
Index place(const NodeView<T>& x, Index i, Index c) {
  return i * x.channels + c;
}

}  // namespace

template <class T>
void layer_norm_sums(const Exec&, double* sums, NodeView<const T> x, std::span<double>) {
  std::fill_n(sums, 2 * x.cols, 0.0);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double value = entry(x, i, b, c);
    sums[b] += value;
    sums[x.cols + b] += value * value;
  });
  sums[2 * x.cols] = static_cast<double>(x.rows * x.channels);
}

template <class T>
void layer_norm_moments(const Exec&, Index cols, T* mean, T* inverse_deviation, const double* sums,
                        double epsilon) {
  const double n = std::max(1.0, sums[2 * cols]);
  for (Index b = 0; b < cols; ++b) {
    const double average = sums[b] / n;
    const double variance = sums[cols + b] / n - average * average;
    mean[b] = static_cast<T>(average);
    inverse_deviation[b] = static_cast<T>(1 / std::sqrt((variance < 0 ? 0 : variance) + epsilon));
  }
}

template <class T>
void layer_norm_forward(const Exec&, NodeView<T> y, NodeView<const T> x, const T* mean,
                        const T* inverse_deviation, const T* gain, const T* bias) {
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double normal = (double{entry(x, i, b, c)} - double{mean[b]}) * double{inverse_deviation[b]};
    entry(y, i, b, c) = static_cast<T>(normal * double{gain[place(x, i, c)]} + double{bias[place(x, i, c)]});
  });
}

template <class T>
void layer_norm_backward_sums(const Exec&, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, const T* gain, std::span<double>) {
  std::fill_n(sums, 2 * x.cols, 0.0);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double g = double{entry(dy, i, b, c)} * double{gain[place(x, i, c)]};
    sums[b] += g;
    sums[x.cols + b] += g * (double{entry(x, i, b, c)} - double{mean[b]}) * double{inverse_deviation[b]};
  });
}

template <class T>
void layer_norm_backward_parameters(const Exec&, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, const T* mean, const T* inverse_deviation) {
  for (Index i = 0; i < x.rows; ++i)
    for (Index c = 0; c < x.channels; ++c) {
      double of_gain = 0, of_bias = 0;
      for (Index b = 0; b < x.cols; ++b) {
        const double g = entry(dy, i, b, c);
        of_gain += g * (double{entry(x, i, b, c)} - double{mean[b]}) * double{inverse_deviation[b]};
        of_bias += g;
      }
      if (dgain) dgain[place(x, i, c)] = static_cast<T>(dgain[place(x, i, c)] + of_gain);
      if (dbias) dbias[place(x, i, c)] = static_cast<T>(dbias[place(x, i, c)] + of_bias);
    }
}

template <class T>
void layer_norm_backward_input(const Exec&, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* inverse_deviation, const T* gain, const double* sums,
                               const double* count) {
  const double n = std::max(1.0, *count);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double inverse = inverse_deviation[b];
    const double normal = (double{entry(x, i, b, c)} - double{mean[b]}) * inverse;
    const double g = double{entry(dy, i, b, c)} * double{gain[place(x, i, c)]};
    T& to = entry(dx, i, b, c);
    to = static_cast<T>(to + inverse * (g - (sums[b] + normal * sums[x.cols + b]) / n));
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, layer_norm_sums, layer_norm_moments, layer_norm_forward, layer_norm_backward_sums,
                 layer_norm_backward_parameters, layer_norm_backward_input)
