#include "rossby/kernels/elementwise.hpp"

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void pack(const Exec&, NodeView<T> y, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) { entry(y, i, b, c) = entry(x, i, b, c); });
}

template <class T>
void add(const Exec&, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(y, [&](Index i, Index t, Index c) {
    entry(y, i, t, c) = static_cast<T>(double{entry(a, i, t, c)} + double{entry(b, i, t, c)});
  });
}

template <class T>
void scale(const Exec&, NodeView<T> y, T alpha, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>(double{alpha} * double{entry(x, i, b, c)});
  });
}

template <class T>
void accumulate(const Exec&, NodeView<T> y, T alpha, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>(double{entry(y, i, b, c)} + double{alpha} * double{entry(x, i, b, c)});
  });
}

template <class T>
void multiply(const Exec&, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(y, [&](Index i, Index t, Index c) {
    entry(y, i, t, c) = static_cast<T>(double{entry(a, i, t, c)} * double{entry(b, i, t, c)});
  });
}

template <class T>
void multiply_accumulate(const Exec&, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(y, [&](Index i, Index t, Index c) {
    entry(y, i, t, c) =
        static_cast<T>(double{entry(y, i, t, c)} + double{entry(a, i, t, c)} * double{entry(b, i, t, c)});
  });
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

}  // namespace rossby::reference
