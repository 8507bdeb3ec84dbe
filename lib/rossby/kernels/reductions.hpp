#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"

namespace rossby {

// Sums are taken in double over blocks that depend on the size alone: they are bit-equal at every number of
// threads.

/// *sum += Σ x²; loss.hpp says when.
template <class T>
void sum_of_squares(const Exec& exec, std::span<const T> x, double* sum) {
  dispatch<sum_of_squares<T>>(exec, x, sum);
}

/// Position of the first NaN or infinity, or −1 if all values are finite.
template <class T>
[[nodiscard]] Index first_non_finite(const Exec& exec, std::span<const T> x) {
  return dispatch<first_non_finite<T>>(exec, x);
}

/// *sum += Σ clamp(m, 0, 1): their l1 norm.
template <class T>
void clamp_l1_sum(const Exec& exec, std::span<const T> m, double* sum) {
  dispatch<clamp_l1_sum<T>>(exec, m, sum);
}

/// dm += scale if 0 < m < 1: the gradient of scale · clamp_l1_sum. Zero elsewhere, also at exactly 0 and
/// exactly 1.
template <class T>
void clamp_l1_backward(const Exec& exec, std::span<T> dm, std::span<const T> m, double scale) {
  require(dm.size() == m.size(), shapes_differ);
  dispatch<clamp_l1_backward<T>>(exec, dm, m, scale);
}

}  // namespace rossby
