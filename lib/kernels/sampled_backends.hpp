#pragma once

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/sampled.hpp"

// The same functions on devices; sampled.cpp checks shapes once and picks.

#define ROSSBY_SAMPLED_BACKEND                                                                              \
  template <class T>                                                                                        \
  void gather_samples(const Exec&, NodeView<T>, NodeView<const T>, std::span<const Sample>);                \
  template <class T>                                                                                        \
  void scatter_add_samples(const Exec&, NodeView<T>, NodeView<const T>, std::span<const Sample>);           \
  template <class T>                                                                                        \
  void sampled_sparse_forward(const Exec&, MatrixView<T>, const SparseRelate<T>&, std::span<const Sample>,  \
                              NodeView<const T>, NodeView<const T>);                                        \
  template <class T>                                                                                        \
  void sampled_sparse_backward(const Exec&, NodeView<T>, NodeView<T>, T*, const SparseRelate<T>&,           \
                               std::span<const Sample>, MatrixView<const T>, NodeView<const T>,             \
                               NodeView<const T>);                                                          \
  template <class T>                                                                                        \
  void sampled_dense_forward(const Exec&, MatrixView<T>, const DenseRelate<T>&, std::span<const Sample>,    \
                             NodeView<const T>);                                                            \
  template <class T>                                                                                        \
  void sampled_dense_backward(const Exec&, NodeView<T>, T*, const DenseRelate<T>&, std::span<const Sample>, \
                              MatrixView<const T>, NodeView<const T>);                                      \
  template <class T>                                                                                        \
  void sampled_low_rank_forward(const Exec&, MatrixView<T>, MatrixView<const T>, std::span<const T>,        \
                                std::span<const Sample>);                                                   \
  template <class T>                                                                                        \
  void sampled_low_rank_backward(const Exec&, std::span<T>, T*, MatrixView<const T>, std::span<const T>,    \
                                 std::span<const Sample>, MatrixView<const T>);                             \
  template <class T>                                                                                        \
  void sampled_self_forward(const Exec&, MatrixView<T>, const T*, std::span<const Sample>,                  \
                            NodeView<const T>);                                                             \
  template <class T>                                                                                        \
  void sampled_self_backward(const Exec&, NodeView<T>, T*, const T*, std::span<const Sample>,               \
                             MatrixView<const T>, NodeView<const T>);

namespace rossby::simulated {
ROSSBY_SAMPLED_BACKEND
}
ROSSBY_IN_CUDA(ROSSBY_SAMPLED_BACKEND)

#undef ROSSBY_SAMPLED_BACKEND
