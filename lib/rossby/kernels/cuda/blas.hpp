#pragma once

#include <string>

#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby::cuda {

/// c = op(a)·op(b), or c += the same, by cuBLAS on the device's stream. Returns false if the library is not
/// available: use own kernels then. Loads the library at the first call, because runs on CPUs do not need its
/// 0.2 GiB.
template <class T>
bool blas_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                  MatrixView<const T> b, bool accumulate);

/// The reason why cuBLAS is not available; empty if it is.
[[nodiscard]] std::string lacking_cublas();

}  // namespace rossby::cuda
