#pragma once

#include "rossby/kernels/autotune.hpp"
#include "rossby/kernels/relate_dense.hpp"

namespace rossby {

using DenseChoice = Choice<DenseProduct>;
constexpr double must_save(DenseProduct) {
  return 0.15;
}

/// Times forward and fused backward of both products on some rows of a learned W with n columns and `width` =
/// B·d values per node, for a few milliseconds. Relations that take only a millisecond or two in all use own
/// products without a trial. `bf16`: W and its moments are stored in bf16 (T = float). `learned`: training
/// also holds moments; otherwise fewer rows are tried, to save memory.
template <class T>
[[nodiscard]] DenseChoice choose_dense_product(const Exec& exec, Index rows, Index columns, Index width,
                                               bool bf16 = false, bool learned = true);

}  // namespace rossby
