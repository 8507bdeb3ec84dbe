#pragma once

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// y = u ∘ h + (1 − u) ∘ c. Shapes equal, any strides. (The reset gate's r ∘ h is `multiply`.)
template <class T>
void gru_update_forward(const Exec& exec, NodeView<T> y, NodeView<const T> u, NodeView<const T> h,
                        NodeView<const T> c);

/// du += dy ∘ (h − c), dh += dy ∘ u, dc += dy ∘ (1 − u); a gradient whose data is null is skipped.
template <class T>
void gru_update_backward(const Exec& exec, NodeView<T> du, NodeView<T> dh, NodeView<T> dc,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> h, NodeView<const T> c);

}  // namespace rossby
