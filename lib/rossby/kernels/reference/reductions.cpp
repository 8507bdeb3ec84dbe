#include "rossby/kernels/reductions.hpp"

#include <cmath>

namespace rossby::reference {

template <class T>
void sum_of_squares(const Exec&, std::span<const T> x, double* to) {
  double sum = 0;
  for (const T value : x) sum += double{value} * double{value};
  *to += sum;
}

template <class T>
Index first_non_finite(const Exec&, std::span<const T> x) {
  for (std::size_t k = 0; k < x.size(); ++k)
    if (!std::isfinite(x[k])) return static_cast<Index>(k);
  return -1;
}

template <class T>
void clamp_l1_sum(const Exec&, std::span<const T> m, double* to) {
  double sum = 0;
  for (const T value : m) sum += value < 0 ? 0 : value > 1 ? 1 : value;
  *to += sum;
}

template <class T>
void clamp_l1_backward(const Exec&, std::span<T> dm, std::span<const T> m, double scale) {
  for (std::size_t k = 0; k < m.size(); ++k)
    if (m[k] > 0 && m[k] < 1) dm[k] = static_cast<T>(dm[k] + scale);
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, sum_of_squares, first_non_finite, clamp_l1_sum, clamp_l1_backward)
