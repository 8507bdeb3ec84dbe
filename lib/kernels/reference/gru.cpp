#include "rossby/kernels/gru.hpp"

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void gru_update_forward(const Exec&, NodeView<T> y, NodeView<const T> u, NodeView<const T> h,
                        NodeView<const T> c) {
  for_each_entry(y, [&](Index i, Index b, Index k) {
    const double gate = entry(u, i, b, k);
    entry(y, i, b, k) = static_cast<T>(gate * entry(h, i, b, k) + (1 - gate) * entry(c, i, b, k));
  });
}

template <class T>
void gru_update_backward(const Exec&, NodeView<T> du, NodeView<T> dh, NodeView<T> dc, NodeView<const T> dy,
                         NodeView<const T> u, NodeView<const T> h, NodeView<const T> c) {
  for_each_entry(dy, [&](Index i, Index b, Index k) {
    const double g = entry(dy, i, b, k);
    const double gate = entry(u, i, b, k);
    const auto add_to = [&](NodeView<T> to, double x) {
      if (to.data) entry(to, i, b, k) = static_cast<T>(entry(to, i, b, k) + x);
    };
    add_to(du, g * (double{entry(h, i, b, k)} - double{entry(c, i, b, k)}));
    add_to(dh, g * gate);
    add_to(dc, g * (1 - gate));
  });
}

#define ROSSBY_INSTANTIATE(T)                                                                              \
  template void gru_update_forward(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>,         \
                                   NodeView<const T>);                                                     \
  template void gru_update_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<T>, NodeView<const T>, \
                                    NodeView<const T>, NodeView<const T>, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::reference
