#pragma once

// A kernel is declared once, in the header of its concept. The header's function checks shapes and calls the
// back end that Exec names:
//
//   template <class T>
//   void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
//     require(same_shape(y, a, b), shapes_differ);
//     dispatch<add<T>>(exec, y, a, b);
//   }
//
// A back end defines the same function in its own namespace and registers it with ROSSBY_IMPLEMENT(cpu, add).
// Its type must match the header's. A missing implementation is a link error.

#include <algorithm>
#include <span>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A kernel's functions on each back end, defined in the sources of that back end.
template <auto kernel>
struct Implementation {
  static decltype(kernel) reference();
  static decltype(kernel) cpu();
  static decltype(kernel) simulated();
  static decltype(kernel) cuda();
};

/// For kernels that run on the host only: the reference back end, or cpu for every other one.
template <auto kernel, class... Arguments>
auto run_on_host(const Exec& exec, Arguments&&... arguments) {
  using Of = Implementation<kernel>;
  const auto run = exec.backend == Backend::reference ? Of::reference() : Of::cpu();
  return run(exec, std::forward<Arguments>(arguments)...);
}

template <auto kernel, class... Arguments>
auto run_on_device(const Exec& exec, Arguments&&... arguments) {
  using Of = Implementation<kernel>;
  const auto run = exec.backend == Backend::simulated ? Of::simulated() : Of::cuda();
  return run(exec, std::forward<Arguments>(arguments)...);
}

template <auto kernel, class... Arguments>
auto dispatch(const Exec& exec, Arguments&&... arguments) {
  if (on_device(exec.backend)) return run_on_device<kernel>(exec, std::forward<Arguments>(arguments)...);
  return run_on_host<kernel>(exec, std::forward<Arguments>(arguments)...);
}

// Checks of operands.

inline constexpr const char* shapes_differ = "operands of a kernel have one shape";
inline constexpr const char* no_room = "a kernel has scratch for sums of blocks of rows";

template <class A, class... B>
bool same_shape(const NodeView<A>& a, const NodeView<B>&... b) {
  return ((a.rows == b.rows && a.cols == b.cols && a.channels == b.channels) && ...);
}

/// True if a skippable gradient has the required shape or no data.
template <class A, class B>
bool absent_or_same(const NodeView<A>& a, const NodeView<B>& b) {
  return !a.data || same_shape(a, b);
}

inline bool all_within(std::span<const Index> values, Index size) {
  return std::all_of(values.begin(), values.end(), [size](Index v) { return v >= 0 && v < size; });
}

}  // namespace rossby

/// Registers functions of a back end as the kernels of the same names, for both scalar types;
/// ROSSBY_IMPLEMENT_ONE registers one that is no template. These are macros because names and namespaces
/// cannot be template arguments.
#define ROSSBY_IMPLEMENT(BACKEND, ...) ROSSBY_REPEAT(ROSSBY_IMPLEMENT_NEXT(BACKEND, __VA_ARGS__))
#define ROSSBY_IMPLEMENT_ONE(BACKEND, KERNEL)                                    \
  template <>                                                                    \
  decltype(&rossby::KERNEL) rossby::Implementation<&rossby::KERNEL>::BACKEND() { \
    return rossby::BACKEND::KERNEL;                                              \
  }
#define ROSSBY_IMPLEMENT_NEXT(BACKEND, KERNEL, ...) \
  ROSSBY_IMPLEMENT_ONE(BACKEND, KERNEL<float>)      \
  ROSSBY_IMPLEMENT_ONE(BACKEND, KERNEL<double>)     \
  __VA_OPT__(ROSSBY_IMPLEMENT_AGAIN ROSSBY_PARENTHESES(BACKEND, __VA_ARGS__))
#define ROSSBY_IMPLEMENT_AGAIN() ROSSBY_IMPLEMENT_NEXT
#define ROSSBY_PARENTHESES ()
#define ROSSBY_REPEAT(...) ROSSBY_REPEAT_2(ROSSBY_REPEAT_2(ROSSBY_REPEAT_2(ROSSBY_REPEAT_2(__VA_ARGS__))))
#define ROSSBY_REPEAT_2(...) ROSSBY_REPEAT_1(ROSSBY_REPEAT_1(ROSSBY_REPEAT_1(ROSSBY_REPEAT_1(__VA_ARGS__))))
#define ROSSBY_REPEAT_1(...) __VA_ARGS__

/// Instantiates a function template for both scalar types.
#define ROSSBY_FOR_SCALARS(FUNCTION)                  \
  template decltype(FUNCTION<float>) FUNCTION<float>; \
  template decltype(FUNCTION<double>) FUNCTION<double>;
