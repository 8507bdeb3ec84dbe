#pragma once

#include <algorithm>
#include <span>

#include "rossby/base/set_zero.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/device.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// All operands have equal shapes; strides are free. An output may be one of the inputs, entry for entry; no
// other overlap is allowed.

/// y = x: packs a strided view, or writes into one.
template <class T>
void pack(const Exec& exec, NodeView<T> y, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  dispatch<pack<T>>(exec, y, x);
}

/// y = a + b.
template <class T>
void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  require(same_shape(y, a, b), shapes_differ);
  dispatch<add<T>>(exec, y, a, b);
}

/// y = alpha·x.
template <class T>
void scale(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  dispatch<scale<T>>(exec, y, alpha, x);
}

/// y += alpha·x.
template <class T>
void accumulate(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  dispatch<accumulate<T>>(exec, y, alpha, x);
}

/// y = a ∘ b.
template <class T>
void multiply(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  require(same_shape(y, a, b), shapes_differ);
  dispatch<multiply<T>>(exec, y, a, b);
}

/// y += a ∘ b.
template <class T>
void multiply_accumulate(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  require(same_shape(y, a, b), shapes_differ);
  dispatch<multiply_accumulate<T>>(exec, y, a, b);
}

/// y[i, b, f] = scale[i, f]·x[i, b, f] + shift[i, f]; scale and shift are (rows, channels) arrays on the
/// host.
template <class T>
void affine_rows_forward(const Exec& exec, NodeView<T> y, std::span<const T> scale, std::span<const T> shift,
                         NodeView<const T> x) {
  require(same_shape(y, x) && std::ssize(scale) == y.rows * y.channels && shift.size() == scale.size(),
          "rows are scaled by a factor and a shift for every row and channel");
  dispatch<affine_rows_forward<T>>(exec, y, scale, shift, x);
}
/// dx += scale ∘ dy.
template <class T>
void affine_rows_backward(const Exec& exec, NodeView<T> dx, std::span<const T> scale, NodeView<const T> dy) {
  require(same_shape(dx, dy) && std::ssize(scale) == dx.rows * dx.channels,
          "rows are scaled by a factor for every row and channel");
  dispatch<affine_rows_backward<T>>(exec, dx, scale, dy);
}

/// y[i] = clamp(s_i, 0, 1)·x[i], a self relation; s (rows) holds one weight per row.
template <class T>
void weigh_rows_forward(const Exec& exec, NodeView<T> y, const T* s, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  dispatch<weigh_rows_forward<T>>(exec, y, s, x);
}
/// dx[i] += clamp(s_i, 0, 1)·dy[i]; ds_i += ⟨dy[i], x[i]⟩ if 0 < s_i < 1. dx (no data) and ds may be null.
template <class T>
void weigh_rows_backward(const Exec& exec, NodeView<T> dx, T* ds, const T* s, NodeView<const T> dy,
                         NodeView<const T> x) {
  require(same_shape(dy, x) && (!dx.data || same_shape(dx, x)), shapes_differ);
  dispatch<weigh_rows_backward<T>>(exec, dx, ds, s, dy, x);
}

/// values[0 … size) = 0, contiguous.
template <class T>
void clear(const Exec& exec, T* values, Index size) {
  if (size == 0) return;
  if (exec.device)
    exec.device->driver().zero(values, static_cast<std::size_t>(size) * sizeof(T));
  else
    set_zero(values, static_cast<std::size_t>(size) * sizeof(T));
}

/// Clears several arrays; a device clears 32 of them per launch.
template <class T>
void clear_arrays(const Exec& exec, std::span<const std::span<T>> arrays) {
  if (on_device(exec.backend)) return run_on_device<clear_arrays<T>>(exec, arrays);
  for (const std::span<T>& array : arrays) clear(exec, array.data(), std::ssize(array));
}

/// y = 0; memory between its rows stays unchanged.
template <class T>
void clear_view(const Exec& exec, NodeView<T> y) {
  if (y.packed()) return clear(exec, y.data, y.size());
  if (on_device(exec.backend)) return run_on_device<clear_view<T>>(exec, y);
  for (Index i = 0; i < y.rows; ++i)
    for (Index b = 0; b < y.cols; ++b) clear(exec, y.at(i, b), y.channels);
}

}  // namespace rossby
