#include "rossby/kernels/gru.hpp"

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

template <class T>
void gru_update_forward(const Exec& exec, NodeView<T> y, NodeView<const T> u, NodeView<const T> h,
                        NodeView<const T> c) {
  for_each_run(
      exec,
      [](Index size, T* out, const T* gate, const T* old, const T* candidate) {
        for (Index k = 0; k < size; ++k) out[k] = gate[k] * old[k] + (1 - gate[k]) * candidate[k];
      },
      y, u, h, c);
}

template <class T>
void gru_update_backward(const Exec& exec, NodeView<T> du, NodeView<T> dh, NodeView<T> dc,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> h,
                         NodeView<const T> c) {
  if (du.data)
    for_each_run(
        exec,
        [](Index size, T* to, const T* g, const T* old, const T* candidate) {
          for (Index k = 0; k < size; ++k) to[k] += g[k] * (old[k] - candidate[k]);
        },
        du, dy, h, c);
  if (dh.data)
    for_each_run(
        exec,
        [](Index size, T* to, const T* g, const T* gate) {
          for (Index k = 0; k < size; ++k) to[k] += g[k] * gate[k];
        },
        dh, dy, u);
  if (dc.data)
    for_each_run(
        exec,
        [](Index size, T* to, const T* g, const T* gate) {
          for (Index k = 0; k < size; ++k) to[k] += g[k] * (1 - gate[k]);
        },
        dc, dy, u);
}

#define ROSSBY_INSTANTIATE(T)                                                                              \
  template void gru_update_forward(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>,         \
                                   NodeView<const T>);                                                     \
  template void gru_update_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<T>, NodeView<const T>, \
                                    NodeView<const T>, NodeView<const T>, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
