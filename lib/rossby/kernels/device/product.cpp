#include "rossby/kernels/product.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/product.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void matrix_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate) {
  product(exec, c, op_a, a, op_b, b, accumulate);
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(matrix_product)
