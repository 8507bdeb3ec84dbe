#include "rossby/kernels/linear.hpp"

namespace rossby::reference {

template <class T>
void bias_add(const Exec&, MatrixView<T> y, const T* bias) {
  for (Index i = 0; i < y.rows; ++i)
    for (Index o = 0; o < y.cols; ++o) y.row(i)[o] = static_cast<T>(double{y.row(i)[o]} + double{bias[o]});
}

template <class T>
void linear_forward(const Exec&, MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight,
                    const T* bias, bool accumulate) {
  for (Index i = 0; i < y.rows; ++i)
    for (Index o = 0; o < y.cols; ++o) {
      double sum = accumulate ? y.row(i)[o] : 0;
      if (bias) sum += bias[o];
      for (Index k = 0; k < x.cols; ++k) sum += double{x.row(i)[k]} * double{weight.row(o)[k]};
      y.row(i)[o] = static_cast<T>(sum);
    }
}

template <class T>
void linear_backward_input(const Exec&, MatrixView<T> dx, MatrixView<const T> dy, MatrixView<const T> weight,
                           bool accumulate) {
  for (Index i = 0; i < dx.rows; ++i)
    for (Index k = 0; k < dx.cols; ++k) {
      double sum = accumulate ? dx.row(i)[k] : T{0};
      for (Index o = 0; o < dy.cols; ++o) sum += double{dy.row(i)[o]} * double{weight.row(o)[k]};
      dx.row(i)[k] = static_cast<T>(sum);
    }
}

template <class T>
void linear_backward_weight(const Exec&, MatrixView<T> dweight, MatrixView<const T> dy, MatrixView<const T> x,
                            std::span<T>) {
  for (Index o = 0; o < dweight.rows; ++o)
    for (Index k = 0; k < dweight.cols; ++k) {
      double sum = dweight.row(o)[k];
      for (Index i = 0; i < x.rows; ++i) sum += double{dy.row(i)[o]} * double{x.row(i)[k]};
      dweight.row(o)[k] = static_cast<T>(sum);
    }
}

template <class T>
void column_sum(const Exec&, T* dbias, MatrixView<const T> dy, std::span<T>) {
  for (Index o = 0; o < dy.cols; ++o) {
    double sum = dbias[o];
    for (Index i = 0; i < dy.rows; ++i) sum += dy.row(i)[o];
    dbias[o] = static_cast<T>(sum);
  }
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, bias_add, linear_forward, linear_backward_input, linear_backward_weight,
                 column_sum)
