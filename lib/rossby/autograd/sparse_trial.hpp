#pragma once

#include "rossby/autograd/diffusion.hpp"

namespace rossby {

/// The sparse products of a training, for signals of (rows, columns, channels).
struct SparseTrial {
  Index columns = 0, channels = 0;
  int steps = 0;  // of its diffusion convolutions; 0: one step along the first relation (propagate)
  DiffusionVariant variant = DiffusionVariant::paper;
};

/// Times Rossby's kernels and the library on an idle device, for some milliseconds. Both enqueue the terms of
/// a convolution and their adjoint as in training, with packing and adding. Ranks that will run side by side
/// must try side by side. Nothing is tried if the library does not support the operands, or if its index or
/// the trial's terms exceed a quarter of the free memory.
template <class T>
[[nodiscard]] SparseChoice try_sparse_products(const Exec& exec, SparseLibrary<T>& library,
                                               const CsrBlock& block, const SparseTrial& trial);

}  // namespace rossby
