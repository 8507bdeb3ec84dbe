#include "rossby/kernels/gru.hpp"

#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/values.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void gru_reset_forward(const Exec& exec, NodeView<T> r, NodeView<T> y, NodeView<const T> h, const T* bias) {
  const Entries entries = bias ? numbered(y) : entries_of(y, r, h);
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
    const T gate = sigmoid(bias ? r.at(i, b)[k] + bias[k] : r.at(i, b)[k]);
    r.at(i, b)[k] = gate;
    y.at(i, b)[k] = gate * h.at(i, b)[k];
  });
}

template <class T>
void gru_reset_backward(const Exec& exec, NodeView<T> da, NodeView<T> dh, NodeView<const T> dy,
                        NodeView<const T> r, NodeView<const T> h) {
  for_each_entry(exec, entries_of(dy, r, h, da, dh), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
    const T g = dy.at(i, b)[k], gate = r.at(i, b)[k];
    da.at(i, b)[k] += g * h.at(i, b)[k] * gate * (T(1) - gate);
    if (dh.data) dh.at(i, b)[k] += g * gate;
  });
}

template <class T>
void gru_output_forward(const Exec& exec, NodeView<T> u, NodeView<T> c, NodeView<T> y, NodeView<const T> h,
                        const T* bias_u, const T* bias_c) {
  const Entries entries = bias_u || bias_c ? numbered(y) : entries_of(y, u, c, h);
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
    const T gate = sigmoid(bias_u ? u.at(i, b)[k] + bias_u[k] : u.at(i, b)[k]);
    const T candidate = std::tanh(bias_c ? c.at(i, b)[k] + bias_c[k] : c.at(i, b)[k]);
    u.at(i, b)[k] = gate;
    c.at(i, b)[k] = candidate;
    y.at(i, b)[k] = gate * h.at(i, b)[k] + (T(1) - gate) * candidate;
  });
}

template <class T>
void gru_output_backward(const Exec& exec, NodeView<T> da_u, NodeView<T> da_c, NodeView<T> dh,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> c,
                         NodeView<const T> h) {
  for_each_entry(exec, entries_of(dy, u, c, h, da_u, da_c, dh),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
                   const T g = dy.at(i, b)[k], gate = u.at(i, b)[k], candidate = c.at(i, b)[k];
                   da_u.at(i, b)[k] += g * (h.at(i, b)[k] - candidate) * gate * (T(1) - gate);
                   da_c.at(i, b)[k] += g * (T(1) - gate) * (T(1) - candidate * candidate);
                   if (dh.data) dh.at(i, b)[k] += g * gate;
                 });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(gru_reset_forward, gru_reset_backward, gru_output_forward, gru_output_backward)
