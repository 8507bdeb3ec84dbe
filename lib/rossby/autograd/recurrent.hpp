#pragma once

#include "rossby/autograd/tape.hpp"

namespace rossby {

// What recurrent cells are made of. Pre-activations are turned into gates in place: their values are gone
// afterwards, their gradients are still those of the pre-activations.

/// Whether gates had better add the bias of their layer (diffusion_linear without adding it): on devices,
/// where it is a launch of its own otherwise. A host's layers start from it.
[[nodiscard]] bool gates_add_bias(const Exec& exec);

/// sigmoid(a + bias) ∘ h: the old state as the candidate sees it, a the reset gate's pre-activation. Cho et
/// al., EMNLP 2014. `bias` (channels), of the tape's device: its gradient is the layer's. Null: none.
template <class T>
[[nodiscard]] Var<T> gru_reset(Tape<T>& tape, const Var<T>& a, const Var<T>& h, const T* bias = nullptr);

/// u ∘ h + (1 − u) ∘ c with u = sigmoid(a_u + bias_u), c = tanh(a_c + bias_c): the new state.
template <class T>
[[nodiscard]] Var<T> gru_output(Tape<T>& tape, const Var<T>& a_u, const Var<T>& a_c, const Var<T>& h,
                                const T* bias_u = nullptr, const T* bias_c = nullptr);

/// y = x into a value that is there already and that nothing has read; y is tracked if x is.
template <class T>
void assign(Tape<T>& tape, const Var<T>& y, const Var<T>& x);

/// y[i, b, f] = scale[i, f]·x[i, b, f] + shift[i, f]: constants of every row and channel, as scaled data are
/// brought back to their units. `scale` and `shift` (rows, channels) lie outside the tape.
template <class T>
[[nodiscard]] Var<T> affine_rows(Tape<T>& tape, const Var<T>& x, const T* scale, const T* shift);

}  // namespace rossby
