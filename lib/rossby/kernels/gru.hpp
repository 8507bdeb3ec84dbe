#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A cell's gates on pre-activations, in place: r = sigmoid(r + bias), y = r ∘ h. Shapes are equal, strides
/// are free, nothing overlaps. A bias has one value per channel, or is null for none.
template <class T>
void gru_reset_forward(const Exec& exec, NodeView<T> r, NodeView<T> y, NodeView<const T> h,
                       const T* bias = nullptr) {
  require(same_shape(r, y, h), shapes_differ);
  dispatch<gru_reset_forward<T>>(exec, r, y, h, bias);
}

/// da += dy∘h∘r∘(1 − r), dh += dy∘r, with the r that forward stored; dh may be null (no data).
template <class T>
void gru_reset_backward(const Exec& exec, NodeView<T> da, NodeView<T> dh, NodeView<const T> dy,
                        NodeView<const T> r, NodeView<const T> h) {
  require(same_shape(da, dy, r, h), shapes_differ);
  require(absent_or_same(dh, dy), shapes_differ);
  dispatch<gru_reset_backward<T>>(exec, da, dh, dy, r, h);
}

/// u = sigmoid(u + bias_u) and c = tanh(c + bias_c) in place, y = u∘h + (1 − u)∘c.
template <class T>
void gru_output_forward(const Exec& exec, NodeView<T> u, NodeView<T> c, NodeView<T> y, NodeView<const T> h,
                        const T* bias_u = nullptr, const T* bias_c = nullptr) {
  require(same_shape(u, c, y, h), shapes_differ);
  dispatch<gru_output_forward<T>>(exec, u, c, y, h, bias_u, bias_c);
}

/// With the u and c that forward stored: da_u += dy∘(h − c)∘u∘(1 − u), da_c += dy∘(1 − u)∘(1 − c²), dh +=
/// dy∘u; dh may be null.
template <class T>
void gru_output_backward(const Exec& exec, NodeView<T> da_u, NodeView<T> da_c, NodeView<T> dh,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> c,
                         NodeView<const T> h) {
  require(same_shape(da_u, da_c, dy, u, c, h), shapes_differ);
  require(absent_or_same(dh, dy), shapes_differ);
  dispatch<gru_output_backward<T>>(exec, da_u, da_c, dh, dy, u, c, h);
}

}  // namespace rossby
