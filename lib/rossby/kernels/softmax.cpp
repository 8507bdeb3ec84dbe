#include "rossby/kernels/softmax.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {

template <class T>
void softmax_relu_forward(const Exec& exec, MatrixView<T> a, std::span<std::uint8_t> positive) {
  require(a.stride == a.cols || a.rows <= 1, "rows of a softmax are packed");
  require(std::ssize(positive) >= a.size(), "a flag for every score");
  if (a.size() == 0) return;
  ROSSBY_DISPATCH(softmax_relu_forward, exec, a, positive);
}

template <class T>
void softmax_relu_backward(const Exec& exec, MatrixView<T> d, MatrixView<const T> a,
                           std::span<const std::uint8_t> positive) {
  require(d.rows == a.rows && d.cols == a.cols && std::ssize(positive) >= a.size(),
          "gradients, values and flags of a softmax have one shape");
  if (a.size() == 0) return;
  ROSSBY_DISPATCH(softmax_relu_backward, exec, d, a, positive);
}

#define ROSSBY_INSTANTIATE(T)                                                              \
  template void softmax_relu_forward(const Exec&, MatrixView<T>, std::span<std::uint8_t>); \
  template void softmax_relu_backward(const Exec&, MatrixView<T>, MatrixView<const T>,     \
                                      std::span<const std::uint8_t>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
