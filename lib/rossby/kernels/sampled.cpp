#include "rossby/kernels/sampled.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/sampled_backends.hpp"

namespace rossby {

// Batches of pairs touch a thousand rows at most: one implementation, sequential, serves every back end of
// the host. Rows of dense relations are long: these are the reference of cpu/sampled_dense.cpp.
namespace host {
namespace {

template <class T, class Visit>
void each_entry(const SparseRelate<T>& relate, Index row, const Visit& visit) {
  const CsrBlock& w = *relate.block;
  for (int k = 0; k < w.relations; ++k)
    for (Index e = w.ptr[row * w.relations + k]; e < w.ptr[row * w.relations + k + 1]; ++e)
      visit(k, e, Index{w.column[e]});
}

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

}  // namespace
}  // namespace host

// Those of devices, or the host's.
#define ROSSBY_SAMPLED(kernel, ...)          \
  switch (exec.backend) {                    \
    case Backend::simulated:                 \
      return simulated::kernel(__VA_ARGS__); \
    case Backend::cuda:                      \
      ROSSBY_FROM_CUDA(kernel, __VA_ARGS__); \
    case Backend::reference:                 \
    case Backend::cpu:                       \
      break;                                 \
  }                                          \
  return host::kernel<T>(__VA_ARGS__)

template <class T>
void gather_samples(const Exec& exec, NodeView<T> out, NodeView<const T> z, std::span<const Sample> samples) {
  require(out.rows == std::ssize(samples) && out.cols == 1 && out.channels == z.channels,
          "samples: one row each");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(gather_samples, exec, out, z, samples);
}

template <class T>
void scatter_add_samples(const Exec& exec, NodeView<T> dz, NodeView<const T> dout,
                         std::span<const Sample> samples) {
  require(dout.rows == std::ssize(samples) && dout.cols == 1 && dout.channels == dz.channels,
          "samples: one row each");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(scatter_add_samples, exec, dz, dout, samples);
}

template <class T>
void sampled_sparse_forward(const Exec& exec, MatrixView<T> context, const SparseRelate<T>& relate,
                            std::span<const Sample> samples, NodeView<const T> owned,
                            NodeView<const T> ghost) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(sampled_sparse_forward, exec, context, relate, samples, owned, ghost);
}

template <class T>
void sampled_sparse_backward(const Exec& exec, NodeView<T> d_owned, NodeView<T> d_ghost, T* dm,
                             const SparseRelate<T>& relate, std::span<const Sample> samples,
                             MatrixView<const T> d_context, NodeView<const T> owned,
                             NodeView<const T> ghost) {
  require(d_context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(sampled_sparse_backward, exec, d_owned, d_ghost, dm, relate, samples, d_context, owned,
                 ghost);
}

void order_by_column(std::span<const Sample> samples, std::span<Index> order, std::span<Index> counts) {
  require(order.size() == samples.size(), "samples are put in order one by one");
  std::fill(counts.begin(), counts.end(), Index{0});
  for (const Sample& sample : samples) ++counts[static_cast<std::size_t>(sample.col + 1)];
  for (std::size_t c = 1; c < counts.size(); ++c) counts[c] += counts[c - 1];
  for (Index s = 0; s < std::ssize(samples); ++s) {
    Index& place = counts[static_cast<std::size_t>(samples[static_cast<std::size_t>(s)].col)];
    order[static_cast<std::size_t>(place++)] = s;
  }
}

namespace {
/// Whether the vectors' kernels know such relations.
template <class T>
bool vectors_know(const DenseRelate<T>& relate) {
  return !relate.bf16 && (relate.clamped || !relate.pattern);
}
template <class T>
bool has_vectors(const Exec& exec, const DenseRelate<T>& relate) {
  return exec.backend == Backend::cpu && vectors_know(relate);
}
template <class T>
void check_work(const Exec& exec, const DenseRelate<T>& relate, std::span<const Sample> samples,
                const SampledWork<T>& work, Index d) {
  require(work.order.size() == samples.size() &&
              std::ssize(work.values) >= sampled_dense_workspace(exec, relate, d, std::ssize(samples)),
          "sampled product: every sample has its place in the order, and the workspace is large enough");
}
}  // namespace

template <class T>
Index sampled_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index d, Index samples) {
  return is_of_host(exec) && vectors_know(relate) ? cpu::sampled_dense_workspace<T>(exec, relate, d, samples)
                                                  : 0;
}

template <class T>
void sampled_dense_forward(const Exec& exec, MatrixView<T> context, const DenseRelate<T>& relate,
                           std::span<const Sample> samples, NodeView<const T> z, const SampledWork<T>& work) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  check_work(exec, relate, samples, work, context.cols / relate.relations);
  if (has_vectors(exec, relate))
    return cpu::sampled_dense_forward<T>(exec, context, relate, samples, z, work);
  ROSSBY_SAMPLED(sampled_dense_forward, exec, context, relate, samples, z, work);
}

template <class T>
void sampled_dense_backward(const Exec& exec, NodeView<T> dz, T* dm, const DenseRelate<T>& relate,
                            std::span<const Sample> samples, MatrixView<const T> d_context,
                            NodeView<const T> z, const SampledWork<T>& work) {
  require(d_context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  check_work(exec, relate, samples, work, d_context.cols / relate.relations);
  if (has_vectors(exec, relate))
    return cpu::sampled_dense_backward<T>(exec, dz, dm, relate, samples, d_context, z, work);
  ROSSBY_SAMPLED(sampled_dense_backward, exec, dz, dm, relate, samples, d_context, z, work);
}

template <class T>
void sampled_low_rank_forward(const Exec& exec, MatrixView<T> context, MatrixView<const T> u,
                              std::span<const T> sums, std::span<const Sample> samples) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(sampled_low_rank_forward, exec, context, u, sums, samples);
}

template <class T>
void sampled_low_rank_backward(const Exec& exec, std::span<T> d_sums, T* du, MatrixView<const T> u,
                               std::span<const T> sums, std::span<const Sample> samples,
                               MatrixView<const T> d_context) {
  require(d_context.rows == std::ssize(samples) && d_sums.size() == sums.size(),
          "sampled product: one context row a sample");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(sampled_low_rank_backward, exec, d_sums, du, u, sums, samples, d_context);
}

template <class T>
void sampled_self_forward(const Exec& exec, MatrixView<T> context, const T* weight,
                          std::span<const Sample> samples, NodeView<const T> z) {
  require(context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(sampled_self_forward, exec, context, weight, samples, z);
}

template <class T>
void sampled_self_backward(const Exec& exec, NodeView<T> dz, T* dweight, const T* weight,
                           std::span<const Sample> samples, MatrixView<const T> d_context,
                           NodeView<const T> z) {
  require(d_context.rows == std::ssize(samples), "sampled product: one context row a sample");
  if (samples.empty()) return;
  ROSSBY_SAMPLED(sampled_self_backward, exec, dz, dweight, weight, samples, d_context, z);
}

#define ROSSBY_INSTANTIATE(T)           \
  ROSSBY_SAMPLED_FUNCTIONS(template, T) \
  template Index sampled_dense_workspace(const Exec&, const DenseRelate<T>&, Index, Index);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
