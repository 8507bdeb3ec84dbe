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
  sum_rows(
      exec, dy.rows, dy.cols,
      [=] ROSSBY_ON_DEVICE(Index i, Index o) { return static_cast<double>(dy.row(i)[o]); },
      [=] ROSSBY_ON_DEVICE(Index o, double sum) { dbias[o] = static_cast<T>(dbias[o] + sum); });
}

template <class T>
void matrix_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate) {
  product(exec, c, op_a, a, op_b, b, accumulate);
}

#define ROSSBY_INSTANTIATE(T)                                                                                \
  template void bias_add(const Exec&, MatrixView<T>, const T*);                                              \
  template void linear_forward(const Exec&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>,         \
                               const T*, bool);                                                              \
  template void linear_backward_input(const Exec&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>,  \
                                      bool);                                                                 \
  template void linear_backward_weight(const Exec&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>, \
                                       std::span<T>);                                                        \
  template void column_sum(const Exec&, T*, MatrixView<const T>, std::span<T>);                              \
  template void matrix_product(const Exec&, MatrixView<T>, Operand, MatrixView<const T>, Operand,            \
                               MatrixView<const T>, bool);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::ROSSBY_DEVICE
