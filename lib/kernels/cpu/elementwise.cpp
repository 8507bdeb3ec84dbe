#include "rossby/kernels/elementwise.hpp"

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/elementwise.hpp"

namespace rossby::cpu {

template <class T>
void pack(const Exec& exec, NodeView<T> y, NodeView<const T> x) {
  for_each_run(
      exec, [](Index size, T* to, const T* from) { std::copy_n(from, size, to); }, y, x);
}

template <class T>
void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_run(exec, elementwise_kernels<T>(exec.isa).add, y, a, b);
}

template <class T>
void scale(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  const auto f = elementwise_kernels<T>(exec.isa).scale;
  for_each_run(
      exec, [=](Index size, T* out, const T* in) { f(size, out, in, alpha); }, y, x);
}

template <class T>
void accumulate(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  const auto f = elementwise_kernels<T>(exec.isa).accumulate;
  for_each_run(
      exec, [=](Index size, T* out, const T* in) { f(size, out, in, alpha); }, y, x);
}

template <class T>
void multiply(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_run(exec, elementwise_kernels<T>(exec.isa).multiply, y, a, b);
}

template <class T>
void multiply_accumulate(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_run(exec, elementwise_kernels<T>(exec.isa).multiply_accumulate, y, a, b);
}

#define ROSSBY_INSTANTIATE(T)                                                             \
  template void pack(const Exec&, NodeView<T>, NodeView<const T>);                        \
  template void add(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);      \
  template void scale(const Exec&, NodeView<T>, T, NodeView<const T>);                    \
  template void accumulate(const Exec&, NodeView<T>, T, NodeView<const T>);               \
  template void multiply(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>); \
  template void multiply_accumulate(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
