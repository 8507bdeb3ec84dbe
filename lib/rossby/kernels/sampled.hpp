#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/relate.hpp"

// Kernels for batches of (time, node) pairs: a layer on the contexts of `samples` alone. Contexts are
// (samples, r·d), packed. Views of z may be strided, as Z itself is. Samples may repeat: additions to the
// same place happen in the order of the samples.

namespace rossby {

/// out (samples, 1, d) = z[row, col] of every sample. Its adjoint: dz[row, col] += dout.
template <class T>
void gather_samples(const Exec& exec, NodeView<T> out, NodeView<const T> z, std::span<const Sample> samples) {
  require(out.rows == std::ssize(samples) && out.cols == 1 && out.channels == z.channels,
          "samples: one row each");
  if (samples.empty()) return;
  dispatch<gather_samples<T>>(exec, out, z, samples);
}
template <class T>
void scatter_add_samples(const Exec& exec, NodeView<T> dz, NodeView<const T> dout,
                         std::span<const Sample> samples) {
  require(dout.rows == std::ssize(samples) && dout.cols == 1 && dout.channels == dz.channels,
          "samples: one row each");
  if (samples.empty()) return;
  dispatch<scatter_add_samples<T>>(exec, dz, dout, samples);
}

/// context[s, k·d + f] = Σ_e w_e z[column_e, col, f] over the entries of relation k in the sample's row.
template <class T>
void sampled_sparse_forward(const Exec& exec, MatrixView<T> context, const SparseRelate<T>& relate,
                            std::span<const Sample> samples, NodeView<const T> owned,
                            NodeView<const T> ghost) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  dispatch<sampled_sparse_forward<T>>(exec, context, relate, samples, owned, ghost);
}
/// The adjoint: d_owned, d_ghost and dm +=; each may be null.
template <class T>
void sampled_sparse_backward(const Exec& exec, NodeView<T> d_owned, NodeView<T> d_ghost, T* dm,
                             const SparseRelate<T>& relate, std::span<const Sample> samples,
                             MatrixView<const T> d_context, NodeView<const T> owned,
                             NodeView<const T> ghost) {
  require(d_context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  dispatch<sampled_sparse_backward<T>>(exec, d_owned, d_ghost, dm, relate, samples, d_context, owned, ghost);
}

/// Workspace of the kernels of dense relations.
template <class T>
struct SampledWork {
  std::span<const Index> order;  // numbers of the samples, grouped by column
  std::span<T> values;           // sampled_dense_workspace
};
/// Fills `order`; `counts` (B + 1) is scratch.
void order_by_column(std::span<const Sample> samples, std::span<Index> order, std::span<Index> counts);
/// Scratch values for `samples` samples.
template <class T>
Index sampled_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index d, Index samples) {
  return is_of_host(exec) ? Implementation<sampled_dense_workspace<T>>::cpu()(exec, relate, d, samples) : 0;
}

/// Throws BugError unless `work` is large enough for the samples.
template <class T>
void check_work(const Exec& exec, const DenseRelate<T>& relate, std::span<const Sample> samples,
                const SampledWork<T>& work, Index d) {
  require(work.order.size() == samples.size() &&
              std::ssize(work.values) >= sampled_dense_workspace(exec, relate, d, std::ssize(samples)),
          "sampled product: every sample has its place in the order, and the workspace is large enough");
}

/// The same for dense relations; z (columns, B, d). The order of additions to the same place depends only on
/// the samples.
template <class T>
void sampled_dense_forward(const Exec& exec, MatrixView<T> context, const DenseRelate<T>& relate,
                           std::span<const Sample> samples, NodeView<const T> z, const SampledWork<T>& work) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  check_work(exec, relate, samples, work, context.cols / relate.relations);
  dispatch<sampled_dense_forward<T>>(exec, context, relate, samples, z, work);
}
template <class T>
void sampled_dense_backward(const Exec& exec, NodeView<T> dz, T* dm, const DenseRelate<T>& relate,
                            std::span<const Sample> samples, MatrixView<const T> d_context,
                            NodeView<const T> z, const SampledWork<T>& work) {
  require(d_context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  check_work(exec, relate, samples, work, d_context.cols / relate.relations);
  dispatch<sampled_dense_backward<T>>(exec, dz, dm, relate, samples, d_context, z, work);
}

/// Low rank: context[s] = Σ_q u[row, q] sums[col, q] with u (rows, k) and sums (B, k, d).
template <class T>
void sampled_low_rank_forward(const Exec& exec, MatrixView<T> context, MatrixView<const T> u,
                              std::span<const T> sums, std::span<const Sample> samples) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  dispatch<sampled_low_rank_forward<T>>(exec, context, u, sums, samples);
}
/// The adjoint: d_sums += and du (rows, k) +=; du may be null.
template <class T>
void sampled_low_rank_backward(const Exec& exec, std::span<T> d_sums, T* du, MatrixView<const T> u,
                               std::span<const T> sums, std::span<const Sample> samples,
                               MatrixView<const T> d_context) {
  require(d_context.rows == std::ssize(samples) && d_sums.size() == sums.size(),
          "sampled product: one context row a sample");
  if (samples.empty()) return;
  dispatch<sampled_low_rank_backward<T>>(exec, d_sums, du, u, sums, samples, d_context);
}

/// Self: context[s] = clamp(w[row], 0, 1)·z[row, col], w (rows).
template <class T>
void sampled_self_forward(const Exec& exec, MatrixView<T> context, const T* weight,
                          std::span<const Sample> samples, NodeView<const T> z) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  dispatch<sampled_self_forward<T>>(exec, context, weight, samples, z);
}
/// The adjoint: dz += and dw += (if w is strictly inside (0, 1)); each may be null.
template <class T>
void sampled_self_backward(const Exec& exec, NodeView<T> dz, T* dweight, const T* weight,
                           std::span<const Sample> samples, MatrixView<const T> d_context,
                           NodeView<const T> z) {
  require(d_context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  dispatch<sampled_self_backward<T>>(exec, dz, dweight, weight, samples, d_context, z);
}

}  // namespace rossby
