#pragma once

#include <string>

#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby::cuda {

/// c = op(a)·op(b), or c += that, by cuBLAS on the device's stream. False where the library is not there: own
/// kernels take its place then. It is loaded the first time: 0.2 GiB that a run on CPUs does not need.
template <class T>
bool blas_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                  MatrixView<const T> b, bool accumulate);

/// Why there is no cuBLAS; empty where there is.
[[nodiscard]] std::string lacking_cublas();

}  // namespace rossby::cuda
