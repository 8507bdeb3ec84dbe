#pragma once

#include "rossby/autograd/tape.hpp"

namespace rossby {

// Building blocks of recurrent cells. Gates replace their pre-activations in place: the values are
// overwritten, but the gradients are still those of the pre-activations.

/// True if gates should add the bias of their layer (diffusion_linear with add_bias = false). On a device
/// this saves a kernel launch. On the host the layer starts from the bias.
[[nodiscard]] bool gates_add_bias(const Exec& exec);

/// Returns sigmoid(a + bias) ∘ h: the old state as the candidate sees it, where a is the reset gate's
/// pre-activation. Cho et al., EMNLP 2014. `bias` (channels) is on the tape's device, or null; the layer
/// accumulates its gradient.
template <class T>
[[nodiscard]] Var<T> gru_reset(Tape<T>& tape, const Var<T>& a, const Var<T>& h, const T* bias = nullptr);

/// Returns the new state u ∘ h + (1 − u) ∘ c with u = sigmoid(a_u + bias_u), c = tanh(a_c + bias_c).
template <class T>
[[nodiscard]] Var<T> gru_output(Tape<T>& tape, const Var<T>& a_u, const Var<T>& a_c, const Var<T>& h,
                                const T* bias_u = nullptr, const T* bias_c = nullptr);

/// y = x for an existing value that nothing has read. y is tracked if x is.
template <class T>
void assign(Tape<T>& tape, const Var<T>& y, const Var<T>& x);

/// Returns y[i, b, f] = scale[i, f]·x[i, b, f] + shift[i, f], with constants for every row and channel, e.g.
/// to restore the units of scaled data. `scale` and `shift` (rows, channels) lie outside the tape.
template <class T>
[[nodiscard]] Var<T> affine_rows(Tape<T>& tape, const Var<T>& x, const T* scale, const T* shift);

}  // namespace rossby
