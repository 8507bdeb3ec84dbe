#include "rossby/kernels/cpu/simd/elementwise.hpp"

#include "rossby/kernels/cpu/simd/exponential.hpp"
#include "rossby/kernels/cpu/simd/runs.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

template <class T>
using Register = Vec<T, lanes<T>>;

template <class T>
void tanh(Index size, T* y, const T* x) {
  if constexpr (sizeof(T) == 4)
    map_registers(
        size, [](auto, Register<T> v) { return tanh_lanes<lanes<T>>(v); }, y, x);
  else
    for (Index k = 0; k < size; ++k) y[k] = __builtin_tanh(x[k]);
}

template <class T>
void sigmoid(Index size, T* y, const T* x) {
  if constexpr (sizeof(T) == 4)
    map_registers(
        size, [](auto, Register<T> v) { return sigmoid_lanes<lanes<T>>(v); }, y, x);
  else
    for (Index k = 0; k < size; ++k) y[k] = 1 / (1 + __builtin_exp(-x[k]));
}

template <class T>
void relu(Index size, T* y, const T* x) {
  using V = Register<T>;
  map_registers(
      size, [](V, V v) { return v < V{} ? V{} : v; }, y, x);
}

template <class T>
void tanh_backward(Index size, T* dx, const T* y, const T* dy) {
  using V = Register<T>;
  map_registers(
      size, [](V to, V out, V dout) { return to + dout * (T(1) - out * out); }, dx, y, dy);
}

template <class T>
void sigmoid_backward(Index size, T* dx, const T* y, const T* dy) {
  using V = Register<T>;
  map_registers(
      size, [](V to, V out, V dout) { return to + dout * (out * (T(1) - out)); }, dx, y, dy);
}

template <class T>
void relu_backward(Index size, T* dx, const T* y, const T* dy) {
  using V = Register<T>;
  const V one = splat<V>(T(1));
  map_registers(
      size, [one](V to, V out, V dout) { return to + dout * (out > V{} ? one : V{}); }, dx, y, dy);
}

template <class T>
void add(Index size, T* y, const T* a, const T* b) {
  using V = Register<T>;
  map_registers(
      size, [](V, V left, V right) { return left + right; }, y, a, b);
}

template <class T>
void scale(Index size, T* y, const T* x, T alpha) {
  using V = Register<T>;
  map_registers(
      size, [alpha](V, V v) { return alpha * v; }, y, x);
}

template <class T>
void accumulate(Index size, T* y, const T* x, T alpha) {
  using V = Register<T>;
  map_registers(
      size, [alpha](V to, V v) { return to + alpha * v; }, y, x);
}

template <class T>
void multiply(Index size, T* y, const T* a, const T* b) {
  using V = Register<T>;
  map_registers(
      size, [](V, V left, V right) { return left * right; }, y, a, b);
}

template <class T>
void multiply_accumulate(Index size, T* y, const T* a, const T* b) {
  using V = Register<T>;
  map_registers(
      size, [](V to, V left, V right) { return to + left * right; }, y, a, b);
}

}  // namespace

ROSSBY_TABLE(ElementwiseKernels, tanh<T>, sigmoid<T>, relu<T>, tanh_backward<T>, sigmoid_backward<T>,
             relu_backward<T>, add<T>, scale<T>, accumulate<T>, multiply<T>, multiply_accumulate<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
