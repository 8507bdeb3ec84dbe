#pragma once

#include <span>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/kernels/table_loss.hpp"

namespace rossby {

// Losses of rows of a table, as embed_columns and the losses of ops.hpp would compute them one after the
// other, but in one pass over memory that leaves nothing for backward: gradients are added in forward. What
// ops.hpp says of sums, scales and targets holds.

/// Whether the host computes, and a node's `values` fit the first-level cache: those of x in all columns, or
/// in one those of a decoder with so many `weights`.
template <class T>
[[nodiscard]] bool table_losses_fit(const Tape<T>& tape, Index values, Index weights = 0);

/// Σ (table[times[b]] − f(x))², f tanh or the identity; gradients go to both sides. `table` is (T, n, d), x
/// (n, B, d), packed.
template <class T>
void table_difference(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times, const Var<T>& x,
                      bool through_tanh, double scale, double* sum);

/// Σ (table[times[b]]·Wᵀ − truth[its times[b]])² over entries of the truth, a table (steps, n, m), that are
/// not NaN. `weight` is (m, d), or null: m = d and the rows themselves are compared.
template <class T>
void table_decoded_error(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times,
                         std::type_identity_t<Parameter<T>>* weight, const TableColumns<float>& truth,
                         double scale, double* sum);

}  // namespace rossby
