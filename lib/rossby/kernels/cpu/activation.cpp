#include "rossby/kernels/activation.hpp"

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/elementwise.hpp"

namespace rossby::cpu {

template <class T>
void activation_forward(const Exec& exec, Activation f, NodeView<T> y, NodeView<const T> x) {
  const ElementwiseKernels<T>& kernels = kernels_of<ElementwiseKernels, T>(exec.isa);
  switch (f) {
    case Activation::tanh:
      return for_each_run(exec, kernels.tanh, y, x);
    case Activation::sigmoid:
      return for_each_run(exec, kernels.sigmoid, y, x);
    case Activation::relu:
      return for_each_run(exec, kernels.relu, y, x);
  }
}

template <class T>
void activation_backward(const Exec& exec, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  const ElementwiseKernels<T>& kernels = kernels_of<ElementwiseKernels, T>(exec.isa);
  switch (f) {
    case Activation::tanh:
      return for_each_run(exec, kernels.tanh_backward, dx, y, dy);
    case Activation::sigmoid:
      return for_each_run(exec, kernels.sigmoid_backward, dx, y, dy);
    case Activation::relu:
      return for_each_run(exec, kernels.relu_backward, dx, y, dy);
  }
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, activation_forward, activation_backward)
