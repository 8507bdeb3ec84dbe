#include "rossby/kernels/product.hpp"

namespace rossby::reference {

template <class T>
void matrix_product(const Exec&, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate) {
  const Index inner = op_a == Operand::plain ? a.cols : a.rows;
  for (Index i = 0; i < c.rows; ++i)
    for (Index j = 0; j < c.cols; ++j) {
      double sum = accumulate ? double{c.row(i)[j]} : 0;
      for (Index k = 0; k < inner; ++k)
        sum += double{op_a == Operand::plain ? a.row(i)[k] : a.row(k)[i]} *
               double{op_b == Operand::plain ? b.row(k)[j] : b.row(j)[k]};
      c.row(i)[j] = static_cast<T>(sum);
    }
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, matrix_product)
