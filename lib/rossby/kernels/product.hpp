#pragma once

#include <string>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A matrix operand as it is stored, or its transpose.
enum class Operand { plain, transposed };

/// c (m, q) = op(a) (m, k) · op(b) (k, q), or c += the same if `accumulate`. c overlaps neither operand.
/// Threads share tiles of c, which the shape alone determines; no sum is split.
template <class T>
void matrix_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate) {
  const bool flip_a = op_a == Operand::transposed, flip_b = op_b == Operand::transposed;
  require((flip_a ? a.cols : a.rows) == c.rows && (flip_b ? b.rows : b.cols) == c.cols &&
              (flip_a ? a.rows : a.cols) == (flip_b ? b.cols : b.rows),
          "a product of (m, k) and (k, q) is (m, q)");
  if (c.size() == 0) return;
  dispatch<matrix_product<T>>(exec, c, op_a, a, op_b, b, accumulate);
}

/// True if this build and this processor have bf16 multiply instructions (AVX-512 BF16). Otherwise values are
/// rounded and multiplied as floats: same results, at the speed of floats.
[[nodiscard]] bool has_bf16_products();

/// The reason why GPU products use own kernels, without matrix units, instead of cuBLAS; empty if they use
/// cuBLAS.
[[nodiscard]] std::string lacking_cublas();

}  // namespace rossby
