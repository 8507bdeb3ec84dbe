#pragma once

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/sampled.hpp"

// The same functions on devices; sampled.cpp checks shapes once and picks.

// LEAD: `template <class T>` declares, `template` instantiates.
#define ROSSBY_SAMPLED_FUNCTIONS(LEAD, T)                                                                 \
  LEAD void gather_samples(const Exec&, NodeView<T>, NodeView<const T>, std::span<const Sample>);         \
  LEAD void scatter_add_samples(const Exec&, NodeView<T>, NodeView<const T>, std::span<const Sample>);    \
  LEAD void sampled_sparse_forward(const Exec&, MatrixView<T>, const SparseRelate<T>&,                    \
                                   std::span<const Sample>, NodeView<const T>, NodeView<const T>);        \
  LEAD void sampled_sparse_backward(const Exec&, NodeView<T>, NodeView<T>, T*, const SparseRelate<T>&,    \
                                    std::span<const Sample>, MatrixView<const T>, NodeView<const T>,      \
                                    NodeView<const T>);                                                   \
  LEAD void sampled_dense_forward(const Exec&, MatrixView<T>, const DenseRelate<T>&,                      \
                                  std::span<const Sample>, NodeView<const T>, const SampledWork<T>&);     \
  LEAD void sampled_dense_backward(const Exec&, NodeView<T>, T*, const DenseRelate<T>&,                   \
                                   std::span<const Sample>, MatrixView<const T>, NodeView<const T>,       \
                                   const SampledWork<T>&);                                                \
  LEAD void sampled_low_rank_forward(const Exec&, MatrixView<T>, MatrixView<const T>, std::span<const T>, \
                                     std::span<const Sample>);                                            \
  LEAD void sampled_low_rank_backward(const Exec&, std::span<T>, T*, MatrixView<const T>,                 \
                                      std::span<const T>, std::span<const Sample>, MatrixView<const T>);  \
  LEAD void sampled_self_forward(const Exec&, MatrixView<T>, const T*, std::span<const Sample>,           \
                                 NodeView<const T>);                                                      \
  LEAD void sampled_self_backward(const Exec&, NodeView<T>, T*, const T*, std::span<const Sample>,        \
                                  MatrixView<const T>, NodeView<const T>);

// Dense ones are worth vectors and threads on a host, too.
namespace rossby::cpu {
template <class T>
Index sampled_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index d, Index samples);
template <class T>
void sampled_dense_forward(const Exec&, MatrixView<T>, const DenseRelate<T>&, std::span<const Sample>,
                           NodeView<const T>, const SampledWork<T>&);
template <class T>
void sampled_dense_backward(const Exec&, NodeView<T>, T*, const DenseRelate<T>&, std::span<const Sample>,
                            MatrixView<const T>, NodeView<const T>, const SampledWork<T>&);
}  // namespace rossby::cpu

#define ROSSBY_SAMPLED_BACKEND ROSSBY_SAMPLED_FUNCTIONS(template <class T>, T)
namespace rossby::simulated {
ROSSBY_SAMPLED_BACKEND
}
ROSSBY_IN_CUDA(ROSSBY_SAMPLED_BACKEND)

#undef ROSSBY_SAMPLED_BACKEND
