#pragma once

#include <string>

#include "rossby/kernels/relate_dense.hpp"

namespace rossby {

/// Which products a dense relation is to use, and what they took in the trial (0: not tried).
struct DenseChoice {
  DenseProduct product = DenseProduct::own;
  double own_seconds = 0;
  double blas_seconds = 0;
};

/// One line: "own (own 2.1 ms, blas 3.0 ms)".
[[nodiscard]] std::string to_string(const DenseChoice& choice);

/// Times forward and fused backward of both products on some rows of a learned W with n columns and `width` =
/// B·d values a node, for a few milliseconds. BLAS has to win by 15 % to be chosen. Two runs may choose
/// differently where both are close: fix the choice where runs are to be bit-equal. Relations that take a
/// millisecond or two in all are not tried: own. `bf16`: W and its moments are held so (T = float).
template <class T>
[[nodiscard]] DenseChoice choose_dense_product(const Exec& exec, Index rows, Index columns, Index width,
                                               bool bf16 = false);

}  // namespace rossby
