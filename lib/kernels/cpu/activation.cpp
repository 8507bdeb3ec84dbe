#include "rossby/kernels/activation.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {
namespace {

template <class T, class F>
void map(const Exec& exec, NodeView<T> y, NodeView<const T> x, const F& f) {
  for_each_run(
      exec,
      [&f](Index size, T* out, const T* in) {
        for (Index k = 0; k < size; ++k) out[k] = f(in[k]);
      },
      y, x);
}

template <class T, class F>
void accumulate_slope(const Exec& exec, NodeView<T> dx, NodeView<const T> y, NodeView<const T> dy,
                      const F& slope) {
  for_each_run(
      exec,
      [&slope](Index size, T* to, const T* out, const T* dout) {
        for (Index k = 0; k < size; ++k) to[k] += dout[k] * slope(out[k]);
      },
      dx, y, dy);
}

}  // namespace

template <class T>
void activation_forward(const Exec& exec, Activation f, NodeView<T> y, NodeView<const T> x) {
  switch (f) {
    case Activation::tanh:
      return map(exec, y, x, [](T v) { return std::tanh(v); });
    case Activation::sigmoid:
      return map(exec, y, x, [](T v) { return 1 / (1 + std::exp(-v)); });
    case Activation::relu:
      return map(exec, y, x, [](T v) { return v < 0 ? T{0} : v; });
  }
}

template <class T>
void activation_backward(const Exec& exec, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  switch (f) {
    case Activation::tanh:
      return accumulate_slope(exec, dx, y, dy, [](T v) { return 1 - v * v; });
    case Activation::sigmoid:
      return accumulate_slope(exec, dx, y, dy, [](T v) { return v * (1 - v); });
    case Activation::relu:
      return accumulate_slope(exec, dx, y, dy, [](T v) { return v > 0 ? T{1} : T{0}; });
  }
}

#define ROSSBY_INSTANTIATE(T)                                                                \
  template void activation_forward(const Exec&, Activation, NodeView<T>, NodeView<const T>); \
  template void activation_backward(const Exec&, Activation, NodeView<T>, NodeView<const T>, \
                                    NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
