#pragma once

#include <span>

#include "rossby/kernels/relate.hpp"

// Kernels of batches of pairs (time, node): a layer on the contexts of `samples` alone. Contexts are
// (samples, r·d), packed; views of z may be strided, as Z itself is. Samples may repeat: what is added to the
// same place is added in the order of the samples.

namespace rossby {

/// out (samples, 1, d) = z[row, col] of every sample, and its adjoint: dz[row, col] += dout.
template <class T>
void gather_samples(const Exec& exec, NodeView<T> out, NodeView<const T> z, std::span<const Sample> samples);
template <class T>
void scatter_add_samples(const Exec& exec, NodeView<T> dz, NodeView<const T> dout,
                         std::span<const Sample> samples);

/// context[s, k·d + f] = Σ_e w_e z[column_e, col, f] over the entries of relation k in the sample's row.
template <class T>
void sampled_sparse_forward(const Exec& exec, MatrixView<T> context, const SparseRelate<T>& relate,
                            std::span<const Sample> samples, NodeView<const T> owned,
                            NodeView<const T> ghost);
/// Adjoint: d_owned, d_ghost and dm += ; each may be null.
template <class T>
void sampled_sparse_backward(const Exec& exec, NodeView<T> d_owned, NodeView<T> d_ghost, T* dm,
                             const SparseRelate<T>& relate, std::span<const Sample> samples,
                             MatrixView<const T> d_context, NodeView<const T> owned, NodeView<const T> ghost);

/// What the kernels of dense relations need beside their operands.
template <class T>
struct SampledWork {
  std::span<const Index> order;  // numbers of the samples, those of one column together
  std::span<T> values;           // sampled_dense_workspace
};
/// Fills `order`; `counts` (B + 1) is scratch.
void order_by_column(std::span<const Sample> samples, std::span<Index> order, std::span<Index> counts);
/// Scratch values for so many samples.
template <class T>
Index sampled_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index d, Index samples);

/// The same for dense relations; z (columns, B, d). What is added to the same place is added in an order that
/// follows from the samples.
template <class T>
void sampled_dense_forward(const Exec& exec, MatrixView<T> context, const DenseRelate<T>& relate,
                           std::span<const Sample> samples, NodeView<const T> z, const SampledWork<T>& work);
template <class T>
void sampled_dense_backward(const Exec& exec, NodeView<T> dz, T* dm, const DenseRelate<T>& relate,
                            std::span<const Sample> samples, MatrixView<const T> d_context,
                            NodeView<const T> z, const SampledWork<T>& work);

/// Low rank: context[s] = Σ_q u[row, q] sums[col, q] with u (rows, k) and sums (B, k, d).
template <class T>
void sampled_low_rank_forward(const Exec& exec, MatrixView<T> context, MatrixView<const T> u,
                              std::span<const T> sums, std::span<const Sample> samples);
/// d_sums += and du (rows, k) += ; du may be null.
template <class T>
void sampled_low_rank_backward(const Exec& exec, std::span<T> d_sums, T* du, MatrixView<const T> u,
                               std::span<const T> sums, std::span<const Sample> samples,
                               MatrixView<const T> d_context);

/// Self: context[s] = clamp(w[row], 0, 1)·z[row, col], w (rows).
template <class T>
void sampled_self_forward(const Exec& exec, MatrixView<T> context, const T* weight,
                          std::span<const Sample> samples, NodeView<const T> z);
/// dz += and dw += (where w is strictly inside); each may be null.
template <class T>
void sampled_self_backward(const Exec& exec, NodeView<T> dz, T* dweight, const T* weight,
                           std::span<const Sample> samples, MatrixView<const T> d_context,
                           NodeView<const T> z);

}  // namespace rossby
