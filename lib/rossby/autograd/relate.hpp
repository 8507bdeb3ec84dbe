#pragma once

#include <span>

#include "rossby/autograd/relation_bank.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/kernels/relate.hpp"

namespace rossby {

/// One dense layer on [z, W_1 z, …, W_R z], the context of STNN (Ziat et al. 2017), without building it:
///
///     h = z A_0ᵀ + Σ_k (W_k z) A_kᵀ + bias        z (rows, B, d) packed → h (rows, B, w)
///
/// `weight` is (w, (1 + R)·d), block k of d columns belongs to relation k, block 0 to the identity; `bias`
/// (w) or null. Collective where the exchange is: ghosts travel while the identity, low-rank and interior
/// parts are computed, and ghost gradients leave before the gradients of owned rows are computed. Learned
/// relation weights, U, V and s get gradients in their sinks.
template <class T>
[[nodiscard]] Var<T> relate_linear(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                                   Parameter<T>& weight, Parameter<T>* bias);

/// The same layer at sampled (owned row, column) pairs of z (rows, T, d), which may be strided: Z itself, in
/// place. h (samples, 1, w). Every rank calls with its own samples (none is fine); all columns of z are
/// exchanged.
template <class T>
[[nodiscard]] Var<T> relate_linear_sampled(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                                           std::span<const Sample> samples, Parameter<T>& weight,
                                           Parameter<T>* bias);

/// All of a table (T, n, d) as node data (n, T, d) with its gradient, in place.
template <class T>
[[nodiscard]] Var<T> whole_table(Tape<T>& tape, Parameter<T>& table);

}  // namespace rossby
