#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/relate.hpp"

// Batches of pairs touch a thousand rows at most: one implementation, sequential, serves every back end of
// the host.

namespace rossby {
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
void sampled_sparse_forward(const Exec&, MatrixView<T> context, const SparseRelate<T>& relate,
                            std::span<const Sample> samples, NodeView<const T> owned,
                            NodeView<const T> ghost) {
  require(context.rows == static_cast<Index>(samples.size()), "sampled product: one context row a sample");
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
                           std::span<const Sample> samples, NodeView<const T> z) {
  require(context.rows == static_cast<Index>(samples.size()), "sampled product: one context row a sample");
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
                            NodeView<const T> z) {
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

#define ROSSBY_INSTANTIATE(T)                                                                              \
  template void sampled_sparse_forward(const Exec&, MatrixView<T>, const SparseRelate<T>&,                 \
                                       std::span<const Sample>, NodeView<const T>, NodeView<const T>);     \
  template void sampled_sparse_backward(const Exec&, NodeView<T>, NodeView<T>, T*, const SparseRelate<T>&, \
                                        std::span<const Sample>, MatrixView<const T>, NodeView<const T>,   \
                                        NodeView<const T>);                                                \
  template void sampled_dense_forward(const Exec&, MatrixView<T>, const DenseRelate<T>&,                   \
                                      std::span<const Sample>, NodeView<const T>);                         \
  template void sampled_dense_backward(const Exec&, NodeView<T>, T*, const DenseRelate<T>&,                \
                                       std::span<const Sample>, MatrixView<const T>, NodeView<const T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby
