#pragma once

#include "rossby/kernels/exec.hpp"
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

}  // namespace rossby
