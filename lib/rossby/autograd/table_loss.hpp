#pragma once

#include <span>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/kernels/table_loss.hpp"

namespace rossby {

// Losses on rows of a table. They equal embed_columns followed by the losses of ops.hpp, but need one pass
// over memory. Forward adds the gradients, so nothing remains for backward. Sums, scales and targets follow
// ops.hpp.

/// True if the host computes and a node's `values` fit the first-level cache. `values` counts those of x in
/// all columns, or, in one column, those of a decoder with `weights` weights.
template <class T>
[[nodiscard]] bool table_losses_fit(const Tape<T>& tape, Index values, Index weights = 0);

/// Σ (table[times[b]] − f(x))², where f is tanh or the identity. Gradients go to both sides. `table` is (T,
/// n, d), x (n, B, d), packed.
template <class T>
void table_difference(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times, const Var<T>& x,
                      bool through_tanh, double scale, double* sum);

/// Σ (table[times[b]]·Wᵀ − truth[its times[b]])² over the entries of the truth, a table (steps, n, m), that
/// are not NaN. `weight` is (m, d); if null, m = d and the rows themselves are compared.
template <class T>
void table_decoded_error(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times,
                         std::type_identity_t<Parameter<T>>* weight, const TableColumns<float>& truth,
                         double scale, double* sum);

}  // namespace rossby
