#pragma once

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// What a kernel adds to a sum; add(&sum) calls it.
template <class Add>
double sum_of(const Exec& exec, const Add& add) {
  double sum = 0;
  add(&sum);
  settle(exec);
  return sum;
}

}  // namespace rossby
