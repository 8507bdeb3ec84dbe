#pragma once

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// Returns what a kernel adds to a sum; add(&sum) calls the kernel.
template <class Add>
double sum_of(const Exec& exec, const Add& add) {
  double sum = 0;
  add(&sum);
  settle(exec);
  return sum;
}

}  // namespace rossby
