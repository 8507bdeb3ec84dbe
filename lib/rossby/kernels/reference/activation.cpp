#include "rossby/kernels/activation.hpp"

#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {
namespace {

double value(Activation f, double x) {
  switch (f) {
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::relu:
      return x < 0 ? 0 : x;
  }
  return x;
}

/// f'(x) in terms of y = f(x).
double slope(Activation f, double y) {
  switch (f) {
    case Activation::tanh:
      return 1 - y * y;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::relu:
      return y > 0 ? 1 : 0;
  }
  return 1;
}

}  // namespace

template <class T>
void activation_forward(const Exec&, Activation f, NodeView<T> y, NodeView<const T> x) {
  for_each_entry(
      y, [&](Index i, Index b, Index c) { entry(y, i, b, c) = static_cast<T>(value(f, entry(x, i, b, c))); });
}

template <class T>
void activation_backward(const Exec&, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    T& to = entry(dx, i, b, c);
    to = static_cast<T>(double{to} + double{entry(dy, i, b, c)} * slope(f, entry(y, i, b, c)));
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, activation_forward, activation_backward)
