#include "rossby/kernels/batch_norm.hpp"

#include <algorithm>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void batch_norm_sums(const Exec&, std::span<double> sums, NodeView<const T> x, const T* shift,
                     std::span<double>) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double distance = double{entry(x, i, b, c)} - double{shift[c]};
    sums[static_cast<std::size_t>(c)] += distance;
    sums[static_cast<std::size_t>(x.channels + c)] += distance * distance;
  });
}

template <class T>
void batch_norm_forward(const Exec&, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias) {
  for_each_entry(x, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>((double{entry(x, i, b, c)} - double{mean[c]}) * factor[c] + bias[c]);
  });
}

template <class T>
void batch_norm_backward_sums(const Exec&, std::span<double> sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, std::span<double>) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for_each_entry(x, [&](Index i, Index b, Index c) {
    const double g = entry(dy, i, b, c);
    sums[static_cast<std::size_t>(c)] += g;
    sums[static_cast<std::size_t>(x.channels + c)] +=
        g * (double{entry(x, i, b, c)} - double{mean[c]}) * double{inverse_deviation[c]};
  });
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

#define ROSSBY_INSTANTIATE(T)                                                                             \
  template void batch_norm_sums(const Exec&, std::span<double>, NodeView<const T>, const T*,              \
                                std::span<double>);                                                       \
  template void batch_norm_forward(const Exec&, NodeView<T>, NodeView<const T>, const T*, const T*,       \
                                   const T*);                                                             \
  template void batch_norm_backward_sums(const Exec&, std::span<double>, NodeView<const T>,               \
                                         NodeView<const T>, const T*, const T*, std::span<double>);       \
  template void batch_norm_backward_input(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>, \
                                          const T*, const T*, const T*, const T*);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::reference
