#pragma once

#include "rossby/kernels/autotune.hpp"
#include "rossby/kernels/relate_dense.hpp"

namespace rossby {

using DenseChoice = Choice<DenseProduct>;
constexpr double must_save(DenseProduct) {
  return 0.15;
}

/// Times forward and fused backward of both products on some rows of a learned W with n columns and `width` =
/// B·d values a node, for a few milliseconds. Relations that take a
/// millisecond or two in all are not tried: own. `bf16`: W and its moments are held so (T = float).
/// `learned`: a training will hold moments, too; else fewer rows are tried, for less memory.
template <class T>
[[nodiscard]] DenseChoice choose_dense_product(const Exec& exec, Index rows, Index columns, Index width,
                                               bool bf16 = false, bool learned = true);

}  // namespace rossby
