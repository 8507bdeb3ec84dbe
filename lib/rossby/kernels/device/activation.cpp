#include "rossby/kernels/activation.hpp"

#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/values.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void activation_forward(const Exec& exec, Activation f, NodeView<T> y, NodeView<const T> x) {
  for_each_entry(exec, entries_of(y, x), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const T value = x.at(i, b)[c];
    T& to = y.at(i, b)[c];
    if (f == Activation::tanh)
      to = std::tanh(value);
    else if (f == Activation::sigmoid)
      to = sigmoid(value);
    else
      to = value < T(0) ? T(0) : value;
  });
}

template <class T>
void activation_backward(const Exec& exec, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  for_each_entry(exec, entries_of(dx, y, dy), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const T value = y.at(i, b)[c];
    T slope = value > T(0) ? T(1) : T(0);
    if (f == Activation::tanh) slope = T(1) - value * value;
    if (f == Activation::sigmoid) slope = value * (T(1) - value);
    dx.at(i, b)[c] += dy.at(i, b)[c] * slope;
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(activation_forward, activation_backward)
