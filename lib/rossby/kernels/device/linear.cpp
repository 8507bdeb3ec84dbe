#include "rossby/kernels/linear.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/product.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void bias_add(const Exec& exec, MatrixView<T> y, const T* bias) {
  for_each_entry(exec, Entries{y.rows, 1, y.cols, false},
                 [=] ROSSBY_ON_DEVICE(Index i, Index, Index o) { y.row(i)[o] += bias[o]; });
}

template <class T>
void linear_forward(const Exec& exec, MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight,
                    const T* bias, bool accumulate) {
  product(exec, y, Operand::plain, x, Operand::transposed, weight, accumulate);
  if (bias) ROSSBY_DEVICE::bias_add(exec, y, bias);
}

template <class T>
void linear_backward_input(const Exec& exec, MatrixView<T> dx, MatrixView<const T> dy,
                           MatrixView<const T> weight, bool accumulate) {
  product(exec, dx, Operand::plain, dy, Operand::plain, weight, accumulate);
}

template <class T>
void linear_backward_weight(const Exec& exec, MatrixView<T> dweight, MatrixView<const T> dy,
                            MatrixView<const T> x, std::span<T>) {
  product(exec, dweight, Operand::transposed, dy, Operand::plain, x, true);
}

template <class T>
void column_sum(const Exec& exec, T* dbias, MatrixView<const T> dy, std::span<T>) {
  add_column_sums(exec, dbias, dy);
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(bias_add, linear_forward, linear_backward_input, linear_backward_weight, column_sum)
