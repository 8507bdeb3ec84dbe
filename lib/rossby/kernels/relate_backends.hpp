#pragma once

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/relate.hpp"

// The same functions per back end; relate.cpp checks shapes once and picks.

#define ROSSBY_RELATE_BACKEND                                                                                \
  template <class T>                                                                                         \
  Index relate_sparse_workspace(const Exec& exec, const SparseRelate<T>& relate, Index cols,                 \
                                Index channels);                                                             \
  template <class T>                                                                                         \
  void relate_sparse_forward(const Exec&, NodeView<T>, const SparseRelate<T>&, const IdentityBlock<T>&,      \
                             std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>,             \
                             std::span<T>);                                                                  \
  template <class T>                                                                                         \
  void relate_sparse_backward(const Exec&, NodeView<T>, MatrixView<T>, T*, const SparseRelate<T>&,           \
                              const IdentityBlock<T>&, const IdentityGradient<T>&, Index, NodeView<const T>, \
                              NodeView<const T>, std::span<T>);

ROSSBY_EVERY_BACKEND(ROSSBY_RELATE_BACKEND)

#undef ROSSBY_RELATE_BACKEND
