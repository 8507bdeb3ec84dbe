#pragma once

#include "rossby/autograd/diffusion.hpp"

namespace rossby {

/// What a training asks of its graph, for signals of (rows, columns, channels).
struct SparseTrial {
  Index columns = 0, channels = 0;
  int steps = 0;  // of its diffusion convolutions; 0: it goes one step along the first relation (propagate)
  DiffusionVariant variant = DiffusionVariant::paper;
};

/// Times both on a device that is idle, for some milliseconds: the terms of a convolution and their adjoint
/// as a training with own kernels and one with the library enqueue them, packing and adding included. Ranks
/// that will run side by side are to try side by side. Not tried: what the library does not take, or where a
/// quarter of the free memory would not hold its index or the trial's terms.
template <class T>
[[nodiscard]] SparseChoice try_sparse_products(const Exec& exec, SparseLibrary<T>& library,
                                               const CsrBlock& block, const SparseTrial& trial);

}  // namespace rossby
