#include "rossby/kernels/layer_norm.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void layer_norm_forward(const Exec&, NodeView<T> y, std::span<T> mean, std::span<T> inverse_deviation,
                        NodeView<const T> x, const T* gain, const T* bias, double epsilon) {
  const Index size = x.channels;
  for (Index i = 0; i < x.rows; ++i)
    for (Index b = 0; b < x.cols; ++b) {
      double average = 0;
      for (Index c = 0; c < size; ++c) average += entry(x, i, b, c) / static_cast<double>(size);
      double variance = 0;
      for (Index c = 0; c < size; ++c)
        variance += std::pow(entry(x, i, b, c) - average, 2) / static_cast<double>(size);
      const double inverse = 1 / std::sqrt(variance + epsilon);
      mean[i * x.cols + b] = static_cast<T>(average);
      inverse_deviation[i * x.cols + b] = static_cast<T>(inverse);
      for (Index c = 0; c < size; ++c)
        entry(y, i, b, c) = static_cast<T>((entry(x, i, b, c) - average) * inverse * gain[c] + bias[c]);
    }
}

template <class T>
void layer_norm_backward_input(const Exec&, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               std::span<const T> mean, std::span<const T> inverse_deviation, const T* gain) {
  const auto size = static_cast<double>(x.channels);
  for (Index i = 0; i < x.rows; ++i)
    for (Index b = 0; b < x.cols; ++b) {
      const double average = mean[i * x.cols + b];
      const double inverse = inverse_deviation[i * x.cols + b];
      double sum = 0;
      double sum_normal = 0;
      for (Index c = 0; c < x.channels; ++c) {
        const double g = double{entry(dy, i, b, c)} * double{gain[c]};
        sum += g;
        sum_normal += g * (entry(x, i, b, c) - average) * inverse;
      }
      for (Index c = 0; c < x.channels; ++c) {
        const double g = double{entry(dy, i, b, c)} * double{gain[c]};
        const double normal = (entry(x, i, b, c) - average) * inverse;
        T& to = entry(dx, i, b, c);
        to = static_cast<T>(to + inverse * (g - sum / size - normal * sum_normal / size));
      }
    }
}

template <class T>
void layer_norm_backward_parameters(const Exec&, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, std::span<const T> mean,
                                    std::span<const T> inverse_deviation, std::span<T>) {
  for (Index c = 0; c < x.channels; ++c) {
    double gain = 0;
    double bias = 0;
    for (Index i = 0; i < x.rows; ++i)
      for (Index b = 0; b < x.cols; ++b) {
        const double g = entry(dy, i, b, c);
        const Index place = i * x.cols + b;
        gain += g * (double{entry(x, i, b, c)} - double{mean[place]}) * double{inverse_deviation[place]};
        bias += g;
      }
    if (dgain) dgain[c] = static_cast<T>(dgain[c] + gain);
    if (dbias) dbias[c] = static_cast<T>(dbias[c] + bias);
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

}  // namespace rossby::reference
