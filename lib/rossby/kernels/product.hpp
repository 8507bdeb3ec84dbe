#pragma once

#include <string>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A matrix operand as it is stored, or its transpose.
enum class Operand { plain, transposed };

/// c (m, q) = op(a) (m, k) · op(b) (k, q), or c += that with `accumulate`. c overlaps neither operand. Tiles
/// of c are what threads share: they are cut by shape alone, and no sum is split.
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

/// Whether this build and this processor multiply bf16 by instructions (AVX-512 BF16). Others round and
/// multiply floats: the results are the same, at the speed of floats.
[[nodiscard]] bool has_bf16_products();

/// Why products on GPUs are not cuBLAS's but own kernels', which use no matrix units; empty where they are.
[[nodiscard]] std::string lacking_cublas();

}  // namespace rossby
