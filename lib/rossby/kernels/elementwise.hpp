#pragma once

#include <algorithm>
#include <span>

#include "rossby/base/set_zero.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/device.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Shapes of all operands are equal, strides are free. An output may be one of the inputs, entry for entry;
// other overlap is not allowed.

/// y = x: packs a strided view, or writes into one.
template <class T>
void pack(const Exec& exec, NodeView<T> y, NodeView<const T> x);

/// y = a + b.
template <class T>
void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b);

/// y = alpha·x.
template <class T>
void scale(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x);

/// y += alpha·x.
template <class T>
void accumulate(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x);

/// y = a ∘ b.
template <class T>
void multiply(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b);

/// y += a ∘ b.
template <class T>
void multiply_accumulate(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b);

/// y[i, b, f] = scale[i, f]·x[i, b, f] + shift[i, f]; scale and shift are (rows, channels), arrays of the
/// host.
template <class T>
void affine_rows_forward(const Exec& exec, NodeView<T> y, std::span<const T> scale, std::span<const T> shift,
                         NodeView<const T> x);
/// dx += scale ∘ dy.
template <class T>
void affine_rows_backward(const Exec& exec, NodeView<T> dx, std::span<const T> scale, NodeView<const T> dy);

/// y[i] = clamp(s_i, 0, 1)·x[i] with one s of every row, s (rows): a self relation.
template <class T>
void weigh_rows_forward(const Exec& exec, NodeView<T> y, const T* s, NodeView<const T> x);
/// dx[i] += clamp(s_i, 0, 1)·dy[i]; ds_i += ⟨dy[i], x[i]⟩ where 0 < s_i < 1. dx (no data) and ds may be null.
template <class T>
void weigh_rows_backward(const Exec& exec, NodeView<T> dx, T* ds, const T* s, NodeView<const T> dy,
                         NodeView<const T> x);

/// values[0 … size) = 0, contiguous.
template <class T>
void clear(const Exec& exec, T* values, Index size) {
  if (size == 0) return;
  if (exec.device)
    exec.device->driver().zero(values, static_cast<std::size_t>(size) * sizeof(T));
  else
    set_zero(values, static_cast<std::size_t>(size) * sizeof(T));
}

/// The same of some arrays; of a device by a launch for 32 of them.
template <class T>
void clear(const Exec& exec, std::span<const std::span<T>> arrays);

/// y = 0; what lies between its rows stays as it is.
template <class T>
void clear_view(const Exec& exec, NodeView<T> y);

}  // namespace rossby
