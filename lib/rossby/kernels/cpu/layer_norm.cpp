#include "rossby/kernels/layer_norm.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

namespace {

constexpr Index most_partials = 16;

/// Rows a partial sum of the parameter gradients covers: a function of the shape alone.
Index partial_rows(Index rows) {
  return std::max<Index>(64, (rows + most_partials - 1) / most_partials);
}

template <class T>
Index rows_a_piece(NodeView<T> x) {
  return std::max<Index>(1, flat_piece / std::max<Index>(1, x.width()));
}

}  // namespace

template <class T>
void layer_norm_forward(const Exec& exec, NodeView<T> y, std::span<T> mean, std::span<T> inverse_deviation,
                        NodeView<const T> x, const T* gain, const T* bias, double epsilon) {
  const auto size = static_cast<double>(x.channels);
  for_each_piece(exec, x.rows, rows_a_piece(x), x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const T* from = x.at(i, b);
        T* to = y.at(i, b);
        const double average = sum_lanes(x.channels, [from](Index c) { return double{from[c]}; }) / size;
        const double variance = sum_lanes(x.channels,
                                          [from, average](Index c) {
                                            const double deviation = double{from[c]} - average;
                                            return deviation * deviation;
                                          }) /
                                size;
        const T middle = mean[i * x.cols + b] = static_cast<T>(average);
        const T inverse = inverse_deviation[i * x.cols + b] =
            static_cast<T>(1 / std::sqrt(variance + epsilon));
        for (Index c = 0; c < x.channels; ++c) to[c] = (from[c] - middle) * inverse * gain[c] + bias[c];
      }
  });
}

template <class T>
void layer_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               std::span<const T> mean, std::span<const T> inverse_deviation, const T* gain) {
  const auto size = static_cast<double>(x.channels);
  for_each_piece(exec, x.rows, rows_a_piece(x), 2 * x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const T* from = x.at(i, b);
        const T* g = dy.at(i, b);
        T* to = dx.at(i, b);
        const T middle = mean[i * x.cols + b];
        const T inverse = inverse_deviation[i * x.cols + b];
        const T sum =
            static_cast<T>(sum_lanes(x.channels, [=](Index c) { return double{g[c] * gain[c]}; }) / size);
        const T sum_normal = static_cast<T>(
            sum_lanes(x.channels,
                      [=](Index c) { return double{g[c] * gain[c] * (from[c] - middle) * inverse}; }) /
            size);
        for (Index c = 0; c < x.channels; ++c)
          to[c] += inverse * (g[c] * gain[c] - sum - (from[c] - middle) * inverse * sum_normal);
      }
  });
}

template <class T>
void layer_norm_backward_parameters(const Exec& exec, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, std::span<const T> mean,
                                    std::span<const T> inverse_deviation, std::span<T> scratch) {
  const Index size = x.channels;
  const Index rows = partial_rows(x.rows);
  if (x.size() == 0) return;
  for_each_piece(exec, x.rows, rows, 2 * x.size(), [&](Index first, Index last) {
    T* gains = scratch.data() + first / rows * 2 * size;
    T* biases = gains + size;
    std::fill_n(gains, 2 * size, T{0});
    for (Index i = first; i < last; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const T middle = mean[i * x.cols + b];
        const T inverse = inverse_deviation[i * x.cols + b];
        const T* g = dy.at(i, b);
        const T* from = x.at(i, b);
        for (Index c = 0; c < size; ++c) gains[c] += g[c] * (from[c] - middle) * inverse;
        for (Index c = 0; c < size; ++c) biases[c] += g[c];
      }
  });
  for (Index p = 0; p * rows < x.rows; ++p) {
    const T* gains = scratch.data() + p * 2 * size;
    for (Index c = 0; dgain && c < size; ++c) dgain[c] += gains[c];
    for (Index c = 0; dbias && c < size; ++c) dbias[c] += gains[size + c];
  }
}

#define ROSSBY_INSTANTIATE(T)                                                                               \
  template void layer_norm_forward(const Exec&, NodeView<T>, std::span<T>, std::span<T>, NodeView<const T>, \
                                   const T*, const T*, double);                                             \
  template void layer_norm_backward_input(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>,   \
                                          std::span<const T>, std::span<const T>, const T*);                \
  template void layer_norm_backward_parameters(const Exec&, T*, T*, NodeView<const T>, NodeView<const T>,   \
                                               std::span<const T>, std::span<const T>, std::span<T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu

namespace rossby {

Index layer_norm_scratch_size(Index rows, Index channels) {
  const Index partial = cpu::partial_rows(rows);
  return (rows + partial - 1) / partial * 2 * channels;
}

}  // namespace rossby
