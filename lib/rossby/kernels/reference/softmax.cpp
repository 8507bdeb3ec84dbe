#include "rossby/kernels/softmax.hpp"

#include <algorithm>
#include <cmath>

namespace rossby::reference {

template <class T>
void softmax_row(T* a, std::uint8_t* positive, Index n) {
  double largest = 0;
  for (Index w = 0; w < n; ++w) {
    positive[w] = a[w] > 0;
    largest = std::max(largest, static_cast<double>(a[w]));
  }
  double sum = 0;
  for (Index w = 0; w < n; ++w) {
    const double score = a[w] > 0 || std::isnan(a[w]) ? static_cast<double>(a[w]) : 0.0;
    const double power = std::exp(score - largest);
    a[w] = static_cast<T>(power);
    sum += power;
  }
  for (Index w = 0; w < n; ++w) a[w] = static_cast<T>(static_cast<double>(a[w]) / sum);
}

template <class T>
void softmax_row_backward(T* d, const T* a, const std::uint8_t* positive, Index n) {
  double mean = 0;
  for (Index w = 0; w < n; ++w) mean += static_cast<double>(a[w]) * static_cast<double>(d[w]);
  for (Index w = 0; w < n; ++w)
    d[w] = positive[w] != 0 ? static_cast<T>(static_cast<double>(a[w]) * (static_cast<double>(d[w]) - mean))
                            : T{0};
}

template <class T>
void softmax_relu_forward(const Exec&, MatrixView<T> a, std::span<std::uint8_t> positive) {
  for (Index v = 0; v < a.rows; ++v) softmax_row(a.row(v), positive.data() + v * a.cols, a.cols);
}

template <class T>
void softmax_relu_backward(const Exec&, MatrixView<T> d, MatrixView<const T> a,
                           std::span<const std::uint8_t> positive) {
  for (Index v = 0; v < d.rows; ++v)
    softmax_row_backward(d.row(v), a.row(v), positive.data() + v * d.cols, d.cols);
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, softmax_relu_forward, softmax_relu_backward)
