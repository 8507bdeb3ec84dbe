#pragma once

#include "rossby/kernels/relate.hpp"

// The same functions per back end; relate.cpp checks shapes once and picks.

#define ROSSBY_RELATE_BACKEND                                                                                \
  template <class T>                                                                                         \
  void relate_sparse_forward(const Exec&, NodeView<T>, const SparseRelate<T>&, const IdentityBlock<T>&,      \
                             std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>,             \
                             std::span<T>);                                                                  \
  template <class T>                                                                                         \
  void relate_sparse_backward(const Exec&, NodeView<T>, MatrixView<T>, T*, const SparseRelate<T>&,           \
                              const IdentityBlock<T>&, const IdentityGradient<T>&, Index, NodeView<const T>, \
                              NodeView<const T>, std::span<T>);

namespace rossby::reference {
ROSSBY_RELATE_BACKEND
}
namespace rossby::cpu {
ROSSBY_RELATE_BACKEND
template <class T>
Index relate_sparse_workspace(const Exec& exec, const SparseRelate<T>& relate, Index cols, Index channels);
}  // namespace rossby::cpu

#undef ROSSBY_RELATE_BACKEND
