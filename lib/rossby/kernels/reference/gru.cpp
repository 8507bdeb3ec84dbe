#include "rossby/kernels/gru.hpp"

#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void gru_reset_forward(const Exec&, NodeView<T> r, NodeView<T> y, NodeView<const T> h, const T* bias) {
  for_each_entry(y, [&](Index i, Index b, Index k) {
    const double gate = 1 / (1 + std::exp(-(double{entry(r, i, b, k)} + (bias ? bias[k] : 0))));
    entry(r, i, b, k) = static_cast<T>(gate);
    entry(y, i, b, k) = static_cast<T>(gate * entry(h, i, b, k));
  });
}

template <class T>
void gru_reset_backward(const Exec&, NodeView<T> da, NodeView<T> dh, NodeView<const T> dy,
                        NodeView<const T> r, NodeView<const T> h) {
  for_each_entry(dy, [&](Index i, Index b, Index k) {
    const double g = entry(dy, i, b, k);
    const double gate = entry(r, i, b, k);
    entry(da, i, b, k) += static_cast<T>(g * entry(h, i, b, k) * gate * (1 - gate));
    if (dh.data) entry(dh, i, b, k) += static_cast<T>(g * gate);
  });
}

template <class T>
void gru_output_forward(const Exec&, NodeView<T> u, NodeView<T> c, NodeView<T> y, NodeView<const T> h,
                        const T* bias_u, const T* bias_c) {
  for_each_entry(y, [&](Index i, Index b, Index k) {
    const double gate = 1 / (1 + std::exp(-(double{entry(u, i, b, k)} + (bias_u ? bias_u[k] : 0))));
    const double candidate = std::tanh(double{entry(c, i, b, k)} + (bias_c ? bias_c[k] : 0));
    entry(u, i, b, k) = static_cast<T>(gate);
    entry(c, i, b, k) = static_cast<T>(candidate);
    entry(y, i, b, k) = static_cast<T>(gate * entry(h, i, b, k) + (1 - gate) * candidate);
  });
}

template <class T>
void gru_output_backward(const Exec&, NodeView<T> da_u, NodeView<T> da_c, NodeView<T> dh,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> c,
                         NodeView<const T> h) {
  for_each_entry(dy, [&](Index i, Index b, Index k) {
    const double g = entry(dy, i, b, k);
    const double gate = entry(u, i, b, k);
    const double candidate = entry(c, i, b, k);
    entry(da_u, i, b, k) += static_cast<T>(g * (double{entry(h, i, b, k)} - candidate) * gate * (1 - gate));
    entry(da_c, i, b, k) += static_cast<T>(g * (1 - gate) * (1 - candidate * candidate));
    if (dh.data) entry(dh, i, b, k) += static_cast<T>(g * gate);
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, gru_reset_forward, gru_reset_backward, gru_output_forward, gru_output_backward)
