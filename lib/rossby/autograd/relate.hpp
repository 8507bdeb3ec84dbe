#pragma once

#include <span>

#include "rossby/autograd/relation_bank.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/kernels/relate.hpp"

namespace rossby {

/// Returns one dense layer on [z, W_1 z, …, W_R z], the context of STNN (Ziat et al. 2017), without building
/// it:
///
///     h = z A_0ᵀ + Σ_k (W_k z) A_kᵀ + bias        z (rows, B, d) packed → h (rows, B, w)
///
/// `weight` is (w, (1 + R)·d); its block k of d columns belongs to relation k, block 0 to the identity.
/// `bias` is (w) or null. Collective if the exchange is. Ghosts travel while the identity, low-rank and
/// interior parts are computed. Ghost gradients leave before the gradients of owned rows are computed. The
/// gradients of learned relation weights, U, V and s go to their sinks.
template <class T>
[[nodiscard]] Var<T> relate_linear(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                                   Parameter<T>& weight, Parameter<T>* bias);

/// As relate_linear, at sampled (owned row, column) pairs of z (rows, T, d), which may be strided: Z itself,
/// in place. h is (samples, 1, w). Every rank passes its own samples, possibly none. All columns of z are
/// exchanged.
template <class T>
[[nodiscard]] Var<T> relate_linear_sampled(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                                           std::span<const Sample> samples, Parameter<T>& weight,
                                           Parameter<T>* bias);

/// Views a whole table (T, n, d) as node data (n, T, d) with its gradient, in place.
template <class T>
[[nodiscard]] Var<T> whole_table(Tape<T>& tape, Parameter<T>& table);

}  // namespace rossby
