#pragma once

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/diffuse.hpp"
#include "rossby/kernels/spmm.hpp"

// The same functions per back end; spmm.cpp checks shapes once and picks.

#define ROSSBY_SPMM_BACKEND                                                                 \
  template <class T>                                                                        \
  void spmm_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, NodeView<const T>, \
                    std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>);    \
  template <class T>                                                                        \
  void spmm_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, Index, NodeView<const T>);

ROSSBY_EVERY_BACKEND(ROSSBY_SPMM_BACKEND)

#undef ROSSBY_SPMM_BACKEND

// Of devices: several products in one launch, which the others take one after the other; a diffusion in one.

#define ROSSBY_SPMM_DEVICE                                                                             \
  template <class T>                                                                                   \
  void spmm_products(const Exec&, const SparseMatrix<T>&, std::span<const SparseProduct<T>>,           \
                     std::span<const LocalColumn>);                                                    \
  template <class T>                                                                                   \
  void spmm_gradients(const Exec&, const SparseMatrix<T>&, std::span<const SparseGradient<T>>, Index); \
  template <class T>                                                                                   \
  void diffuse_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, const DiffusionSteps&,        \
                       NodeView<const T>);                                                             \
  template <class T>                                                                                   \
  void diffuse_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, const DiffusionSteps&,        \
                       NodeView<const T>);

namespace rossby::simulated {
ROSSBY_SPMM_DEVICE
}
ROSSBY_IN_CUDA(ROSSBY_SPMM_DEVICE)

#undef ROSSBY_SPMM_DEVICE
