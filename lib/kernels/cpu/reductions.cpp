#include "rossby/kernels/reductions.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

template <class T>
double sum_of_squares(const Exec& exec, std::span<const T> x) {
  const T* data = x.data();
  return reduce_span(exec, std::ssize(x), [data](Index k) { return double{data[k]} * double{data[k]}; });
}

template <class T>
Index first_non_finite(const Exec& exec, std::span<const T> x) {
  // A run is searched value by value only where x·0 summed up is not 0, which takes one NaN or infinity.
  const T* data = x.data();
  const double sum = reduce_span(exec, std::ssize(x), [data](Index k) { return double{data[k]} * 0.0; });
  if (sum == 0) return -1;
  Index k = 0;
  while (std::isfinite(data[k])) ++k;
  return k;
}

template <class T>
void clamp_unit(const Exec& exec, std::span<T> y, std::span<const T> m) {
  for_each_piece(exec, std::ssize(m), flat_piece, std::ssize(m), [&](Index first, Index last) {
    for (Index k = first; k < last; ++k) y[k] = m[k] < 0 ? T{0} : m[k] > 1 ? T{1} : m[k];
  });
}

template <class T>
double clamp_l1_sum(const Exec& exec, std::span<const T> m) {
  const T* data = m.data();
  return reduce_span(exec, std::ssize(m), [data](Index k) {
    return data[k] < 0 ? 0.0 : data[k] > 1 ? 1.0 : double{data[k]};
  });
}

template <class T>
void clamp_l1_backward(const Exec& exec, std::span<T> dm, std::span<const T> m, double scale) {
  const T step = static_cast<T>(scale);
  for_each_piece(exec, std::ssize(m), flat_piece, std::ssize(m), [&](Index first, Index last) {
    for (Index k = first; k < last; ++k) dm[k] += m[k] > 0 && m[k] < 1 ? step : T{0};
  });
}

#define ROSSBY_INSTANTIATE(T)                                              \
  template double sum_of_squares(const Exec&, std::span<const T>);         \
  template Index first_non_finite(const Exec&, std::span<const T>);        \
  template void clamp_unit(const Exec&, std::span<T>, std::span<const T>); \
  template double clamp_l1_sum(const Exec&, std::span<const T>);           \
  template void clamp_l1_backward(const Exec&, std::span<T>, std::span<const T>, double);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
