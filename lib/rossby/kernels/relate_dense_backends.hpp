#pragma once

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/relate_dense.hpp"

// The same functions per back end; relate_dense.cpp checks shapes once and picks.

#define ROSSBY_RELATE_DENSE_BACKEND                                                                      \
  template <class T>                                                                                     \
  Index relate_dense_workspace(const Exec& exec, const DenseRelate<T>&, Index cols, Index width);        \
  template <class T>                                                                                     \
  void relate_dense_forward(const Exec&, NodeView<T>, const DenseRelate<T>&, NodeView<const T>,          \
                            std::span<T>);                                                               \
  template <class T>                                                                                     \
  void relate_dense_backward(const Exec&, NodeView<T>, MatrixView<T>, DenseGradient<T>,                  \
                             const DenseRelate<T>&, NodeView<const T>, NodeView<const T>, std::span<T>); \
  template <class T>                                                                                     \
  void relate_dense_update(const Exec&, DenseUpdate<T>&, const DenseRelate<T>&, const T* gradient);

ROSSBY_EVERY_BACKEND(ROSSBY_RELATE_DENSE_BACKEND)

// What bf16.cpp does on hosts for both of them.
#define ROSSBY_REPLAY_BACKEND                                                                  \
  void adam_replay(const Exec&, const Bf16Arrays&, Index relations, Index rows, Index columns, \
                   std::span<const AdamConstants<float>> steps);
namespace rossby::simulated {
ROSSBY_REPLAY_BACKEND
}
ROSSBY_IN_CUDA(ROSSBY_REPLAY_BACKEND)
#undef ROSSBY_REPLAY_BACKEND

#undef ROSSBY_RELATE_DENSE_BACKEND
