#pragma once

#include <string>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A matrix operand as it is stored, or its transpose.
enum class Operand { plain, transposed };

/// c (m, q) = op(a) (m, k) · op(b) (k, q), or c += that with `accumulate`. c overlaps neither operand. Tiles
/// of c are what threads share: they are cut by shape alone, and no sum is split.
template <class T>
void matrix_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate);

/// Whether this build and this processor multiply bf16 by instructions (AVX-512 BF16). Others round and
/// multiply floats: the results are the same, at the speed of floats.
[[nodiscard]] bool has_bf16_products();

/// Why products on GPUs are not cuBLAS's but own kernels', which use no matrix units; empty where they are.
[[nodiscard]] std::string lacking_cublas();

}  // namespace rossby
