#include "rossby/kernels/sampled.hpp"

#include <algorithm>

#include "rossby/kernels/clamp.hpp"

// Batches of pairs reach at most a thousand rows, so these sequential kernels serve every back end on the
// host. Rows of dense relations are long and have kernels of their own in cpu/sampled_dense.cpp.

namespace rossby::reference {
namespace {

template <class T, class Visit>
void each_entry(const SparseRelate<T>& relate, Index row, const Visit& visit) {
  const CsrBlock& w = *relate.block;
  for (int k = 0; k < w.relations; ++k)
    for (Index e = w.ptr[row * w.relations + k]; e < w.ptr[row * w.relations + k + 1]; ++e)
      visit(k, e, Index{w.column[e]});
}

}  // namespace

template <class T>
void gather_samples(const Exec&, NodeView<T> out, NodeView<const T> z, std::span<const Sample> samples) {
  for (Index s = 0; s < out.rows; ++s)
    std::copy_n(z.at(samples[s].row, samples[s].col), out.channels, out.row(s));
}

template <class T>
void scatter_add_samples(const Exec&, NodeView<T> dz, NodeView<const T> dout,
                         std::span<const Sample> samples) {
  for (Index s = 0; s < dout.rows; ++s) {
    T* to = dz.at(samples[s].row, samples[s].col);
    for (Index f = 0; f < dout.channels; ++f) to[f] += dout.row(s)[f];
  }
}

template <class T>
void sampled_sparse_forward(const Exec&, MatrixView<T> context, const SparseRelate<T>& relate,
                            std::span<const Sample> samples, NodeView<const T> owned,
                            NodeView<const T> ghost) {
  const Index d = context.cols / relate.block->relations;
  for (Index s = 0; s < context.rows; ++s) {
    T* out = context.row(s);
    std::fill_n(out, context.cols, T(0));
    each_entry(relate, samples[s].row, [&](int k, Index e, Index c) {
      const T* x = c < owned.rows ? owned.at(c, samples[s].col) : ghost.at(c - owned.rows, samples[s].col);
      const T weight = effective(relate.weight[e], relate.clamped);
      for (Index f = 0; f < d; ++f) out[k * d + f] += weight * x[f];
    });
  }
}

template <class T>
void sampled_sparse_backward(const Exec&, NodeView<T> d_owned, NodeView<T> d_ghost, T* dm,
                             const SparseRelate<T>& relate, std::span<const Sample> samples,
                             MatrixView<const T> d_context, NodeView<const T> owned,
                             NodeView<const T> ghost) {
  const Index d = d_context.cols / relate.block->relations;
  for (Index s = 0; s < d_context.rows; ++s) {
    const T* g = d_context.row(s);
    each_entry(relate, samples[s].row, [&](int k, Index e, Index c) {
      const bool mine = c < owned.rows;
      const Index row = mine ? c : c - owned.rows;
      const T weight = effective(relate.weight[e], relate.clamped);
      if (const NodeView<T>& dz = mine ? d_owned : d_ghost; dz.data) {
        T* out = dz.at(row, samples[s].col);
        for (Index f = 0; f < d; ++f) out[f] += weight * g[k * d + f];
      }
      if (!dm || !passes_gradient(relate.weight[e], relate.clamped)) return;
      const T* x = (mine ? owned : ghost).at(row, samples[s].col);
      T sum = 0;
      for (Index f = 0; f < d; ++f) sum += g[k * d + f] * x[f];
      dm[e] += sum;
    });
  }
}

template <class T>
void sampled_dense_forward(const Exec&, MatrixView<T> context, const DenseRelate<T>& relate,
                           std::span<const Sample> samples, NodeView<const T> z, const SampledWork<T>&) {
  const Index d = context.cols / relate.relations;
  for (Index s = 0; s < context.rows; ++s)
    for (int k = 0; k < relate.relations; ++k) {
      T* out = context.row(s) + k * d;
      std::fill_n(out, d, T(0));
      const Index first = (k * relate.rows + samples[s].row) * relate.columns;
      for (Index j = 0; j < relate.columns; ++j) {
        if (relate.pattern && !relate.pattern[first + j]) continue;
        const T weight = effective(relate.stored(first + j), relate.clamped);
        const T* x = z.at(j, samples[s].col);
        for (Index f = 0; f < d; ++f) out[f] += weight * x[f];
      }
    }
}

template <class T>
void sampled_dense_backward(const Exec&, NodeView<T> dz, T* dm, const DenseRelate<T>& relate,
                            std::span<const Sample> samples, MatrixView<const T> d_context,
                            NodeView<const T> z, const SampledWork<T>&) {
  const Index d = d_context.cols / relate.relations;
  for (Index s = 0; s < d_context.rows; ++s)
    for (int k = 0; k < relate.relations; ++k) {
      const T* g = d_context.row(s) + k * d;
      const Index first = (k * relate.rows + samples[s].row) * relate.columns;
      for (Index j = 0; j < relate.columns; ++j) {
        const Index e = first + j;
        if (relate.pattern && !relate.pattern[e]) continue;
        const T weight = effective(relate.stored(e), relate.clamped);
        if (dz.data) {
          T* out = dz.at(j, samples[s].col);
          for (Index f = 0; f < d; ++f) out[f] += weight * g[f];
        }
        if (!dm || !passes_gradient(relate.stored(e), relate.clamped)) continue;
        const T* x = z.at(j, samples[s].col);
        T sum = 0;
        for (Index f = 0; f < d; ++f) sum += g[f] * x[f];
        dm[e] += sum;
      }
    }
}

template <class T>
void sampled_low_rank_forward(const Exec&, MatrixView<T> context, MatrixView<const T> u,
                              std::span<const T> sums, std::span<const Sample> samples) {
  const Index k = u.cols, d = context.cols;
  for (Index s = 0; s < context.rows; ++s) {
    const T* from = sums.data() + samples[s].col * k * d;
    T* out = context.row(s);
    std::fill_n(out, d, T(0));
    for (Index q = 0; q < k; ++q)
      for (Index f = 0; f < d; ++f) out[f] += u.row(samples[s].row)[q] * from[q * d + f];
  }
}

template <class T>
void sampled_low_rank_backward(const Exec&, std::span<T> d_sums, T* du, MatrixView<const T> u,
                               std::span<const T> sums, std::span<const Sample> samples,
                               MatrixView<const T> d_context) {
  const Index k = u.cols, d = d_context.cols;
  for (Index s = 0; s < d_context.rows; ++s) {
    const Index at = samples[s].col * k * d, row = samples[s].row;
    const T* g = d_context.row(s);
    for (Index q = 0; q < k; ++q)
      for (Index f = 0; f < d; ++f) {
        d_sums[static_cast<std::size_t>(at + q * d + f)] += u.row(row)[q] * g[f];
        if (du) du[row * k + q] += sums[static_cast<std::size_t>(at + q * d + f)] * g[f];
      }
  }
}

template <class T>
void sampled_self_forward(const Exec&, MatrixView<T> context, const T* weight,
                          std::span<const Sample> samples, NodeView<const T> z) {
  for (Index s = 0; s < context.rows; ++s)
    for (Index f = 0; f < context.cols; ++f)
      context.row(s)[f] = effective(weight[samples[s].row], true) * z.at(samples[s].row, samples[s].col)[f];
}

template <class T>
void sampled_self_backward(const Exec&, NodeView<T> dz, T* dweight, const T* weight,
                           std::span<const Sample> samples, MatrixView<const T> d_context,
                           NodeView<const T> z) {
  for (Index s = 0; s < d_context.rows; ++s) {
    const auto [row, col] = samples[s];
    const T* g = d_context.row(s);
    for (Index f = 0; f < d_context.cols; ++f) {
      if (dz.data) dz.at(row, col)[f] += effective(weight[row], true) * g[f];
      if (dweight && passes_gradient(weight[row], true)) dweight[row] += g[f] * z.at(row, col)[f];
    }
  }
}

}  // namespace rossby::reference

namespace rossby::cpu {
using reference::gather_samples;
using reference::sampled_low_rank_backward;
using reference::sampled_low_rank_forward;
using reference::sampled_self_backward;
using reference::sampled_self_forward;
using reference::sampled_sparse_backward;
using reference::sampled_sparse_forward;
using reference::scatter_add_samples;
}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(reference, gather_samples, scatter_add_samples, sampled_sparse_forward,
                 sampled_sparse_backward, sampled_dense_forward, sampled_dense_backward,
                 sampled_low_rank_forward, sampled_low_rank_backward, sampled_self_forward,
                 sampled_self_backward)
ROSSBY_IMPLEMENT(cpu, gather_samples, scatter_add_samples, sampled_sparse_forward, sampled_sparse_backward,
                 sampled_low_rank_forward, sampled_low_rank_backward, sampled_self_forward,
                 sampled_self_backward)
