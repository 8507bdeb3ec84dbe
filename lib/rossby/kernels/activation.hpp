#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

enum class Activation { tanh, sigmoid, relu };

/// y = f(x), elementwise; shapes equal, any strides. y may be x. relu(NaN) is NaN.
template <class T>
void activation_forward(const Exec& exec, Activation f, NodeView<T> y, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  dispatch<activation_forward<T>>(exec, f, y, x);
}

/// dx += dy ∘ f'(x), written in terms of y = f(x): tanh 1 − y², sigmoid y(1 − y), relu 1[y > 0]. Shapes
/// equal.
template <class T>
void activation_backward(const Exec& exec, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  require(same_shape(dx, y, dy), shapes_differ);
  dispatch<activation_backward<T>>(exec, f, dx, y, dy);
}

}  // namespace rossby
