#include "rossby/kernels/sampled.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/dense_weights.hpp"
#include "rossby/kernels/device/shares.hpp"
#include "rossby/kernels/device/sparse.hpp"
#include "rossby/kernels/device/sums.hpp"

// Samples may repeat, and several reach the same row. For scattered sums, threads therefore share the
// targets, and each goes through all samples in order.

namespace rossby::ROSSBY_DEVICE {

static const Sample* listed(const Exec& exec, std::span<const Sample> samples) {
  return exec.device->on_device(samples);
}

template <class T>
void gather_samples(const Exec& exec, NodeView<T> out, NodeView<const T> z, std::span<const Sample> samples) {
  const Sample* sample = listed(exec, samples);
  for_each_entry(exec, numbered(out), [=] ROSSBY_ON_DEVICE(Index s, Index, Index f) {
    out.row(s)[f] = z.at(sample[s].row, sample[s].col)[f];
  });
}

template <class T>
void scatter_add_samples(const Exec& exec, NodeView<T> dz, NodeView<const T> dout,
                         std::span<const Sample> samples) {
  const Sample* sample = listed(exec, samples);
  for_each_share(exec, dz.rows, dz.channels, many_shares, [=] ROSSBY_ON_DEVICE(const Share& share, Index f) {
    for (Index s = 0; s < dout.rows; ++s)
      if (share.has(sample[s].row)) dz.at(sample[s].row, sample[s].col)[f] += dout.row(s)[f];
  });
}

template <class T>
void sampled_sparse_forward(const Exec& exec, MatrixView<T> context, const SparseRelate<T>& relate,
                            std::span<const Sample> samples, NodeView<const T> owned,
                            NodeView<const T> ghost) {
  const DeviceCsr csr(exec, *relate.block);
  const Sample* sample = listed(exec, samples);
  const Columns<T> z{owned, ghost};
  const T* weight = relate.weight;
  const bool clamped = relate.clamped;
  const Index d = context.cols / relate.block->relations;
  for_each(exec, context.rows * context.cols, [=] ROSSBY_ON_DEVICE(Index number) {
    const Index s = number / context.cols, at = number % context.cols;
    const Index list = sample[s].row * csr.relations + at / d;
    T sum = T(0);
    for (Index e = csr.ptr[list]; e < csr.ptr[list + 1]; ++e)
      sum += effective(weight[e], clamped) * z.at(csr.column[e], sample[s].col)[at % d];
    context.row(s)[at] = sum;
  });
}

template <class T>
void sampled_sparse_backward(const Exec& exec, NodeView<T> d_owned, NodeView<T> d_ghost, T* dm,
                             const SparseRelate<T>& relate, std::span<const Sample> samples,
                             MatrixView<const T> d_context, NodeView<const T> owned,
                             NodeView<const T> ghost) {
  const DeviceCsr csr(exec, *relate.block);
  const Sample* sample = listed(exec, samples);
  const Columns<T> z{owned, ghost};
  const T* weight = relate.weight;
  const bool clamped = relate.clamped;
  const Index d = d_context.cols / relate.block->relations;
  if (d_owned.data || d_ghost.data)
    for_each_share(exec, owned.rows + ghost.rows, d, many_shares,
                   [=] ROSSBY_ON_DEVICE(const Share& share, Index f) {
                     for (Index s = 0; s < d_context.rows; ++s) {
                       const Index begin = sample[s].row * csr.relations;
                       for (Index e = csr.ptr[begin]; e < csr.ptr[begin + csr.relations]; ++e) {
                         const Index column = csr.column[e];
                         if (!share.has(column)) continue;
                         const bool mine = column < owned.rows;
                         const NodeView<T>& dz = mine ? d_owned : d_ghost;
                         if (dz.data)
                           dz.at(mine ? column : column - owned.rows, sample[s].col)[f] +=
                               effective(weight[e], clamped) * d_context.row(s)[csr.relation[e] * d + f];
                       }
                     }
                   });
  if (dm)
    for_each_share(exec, csr.rows, csr.relations, many_shares,
                   [=] ROSSBY_ON_DEVICE(const Share& share, Index k) {
                     for (Index s = 0; s < d_context.rows; ++s) {
                       if (!share.has(sample[s].row)) continue;
                       const Index list = sample[s].row * csr.relations + k;
                       for (Index e = csr.ptr[list]; e < csr.ptr[list + 1]; ++e) {
                         if (!passes_gradient(weight[e], clamped)) continue;
                         const T *x = z.at(csr.column[e], sample[s].col), *g = d_context.row(s) + k * d;
                         T sum = T(0);
                         for (Index f = 0; f < d; ++f) sum += g[f] * x[f];
                         dm[e] += sum;
                       }
                     }
                   });
}

/// One block per value of a context: neighbouring threads read neighbouring weights of a row.
template <class T>
void sampled_dense_forward(const Exec& exec, MatrixView<T> context, const DenseRelate<T>& relate,
                           std::span<const Sample> samples, NodeView<const T> z, const SampledWork<T>&) {
  const DenseWeights<T> weights(exec, relate);
  const Sample* sample = listed(exec, samples);
  const Index d = context.cols / relate.relations, size = context.rows * context.cols;
  for_each_block<SumShared>(exec, size, [=] ROSSBY_ON_DEVICE(const Block& block, SumShared& shared) {
    const Index s = block.index / context.cols, at = block.index % context.cols, k = at / d, f = at % d;
    const Index row = sample[s].row, col = sample[s].col;
    block.each([&](int t) {
      T sum = T(0);
      for (Index j = t; j < weights.columns; j += block_threads)
        sum += weights.at(k, row, j) * z.at(j, col)[f];
      shared.value[t] = static_cast<double>(sum);
    });
    fold(block, shared);
    block.each([&](int t) {
      if (t == 0) context.row(s)[at] = static_cast<T>(shared.value[0]);
    });
  });
}

/// Threads share columns j of dz and of W: dz by the step of the samples, W by row.
template <class T>
void sampled_dense_backward(const Exec& exec, NodeView<T> dz, T* dm, const DenseRelate<T>& relate,
                            std::span<const Sample> samples, MatrixView<const T> d_context,
                            NodeView<const T> z, const SampledWork<T>& work) {
  constexpr Index most = 16;
  const DenseWeights<T> weights(exec, relate);
  const Sample* sample = listed(exec, samples);
  const Index* order = exec.device->on_device(work.order);
  const Index relations = relate.relations, d = d_context.cols / relations;
  if (dz.data)
    for_each_share(exec, z.cols, weights.columns * d, most,
                   [=] ROSSBY_ON_DEVICE(const Share& share, Index number) {
                     const Index j = number / d, f = number % d;
                     Index open = -1;  // the step of the current sum
                     T sum = T(0);
                     for (Index q = 0; q < d_context.rows; ++q) {
                       const Index s = order[q], col = sample[s].col;
                       if (!share.has(col)) continue;
                       if (col != open) {
                         if (open >= 0) dz.at(j, open)[f] = sum;
                         sum = dz.at(j, col)[f];
                         open = col;
                       }
                       for (Index k = 0; k < relations; ++k)
                         sum += weights.at(k, sample[s].row, j) * d_context.row(s)[k * d + f];
                     }
                     if (open >= 0) dz.at(j, open)[f] = sum;
                   });
  if (dm)
    for_each_share(exec, weights.rows, weights.columns * relations, most,
                   [=] ROSSBY_ON_DEVICE(const Share& share, Index number) {
                     const Index k = number / weights.columns, j = number % weights.columns;
                     for (Index s = 0; s < d_context.rows; ++s) {
                       if (!share.has(sample[s].row)) continue;
                       const Index e = (k * weights.rows + sample[s].row) * weights.columns + j;
                       if (!weights.exists(e) || !passes_gradient(weights.stored(e), weights.clamped))
                         continue;
                       const T *x = z.at(j, sample[s].col), *g = d_context.row(s) + k * d;
                       T sum = T(0);
                       for (Index f = 0; f < d; ++f) sum += g[f] * x[f];
                       dm[e] += sum;
                     }
                   });
}

template <class T>
void sampled_low_rank_forward(const Exec& exec, MatrixView<T> context, MatrixView<const T> u,
                              std::span<const T> sums, std::span<const Sample> samples) {
  const Sample* sample = listed(exec, samples);
  const T* from = sums.data();
  const Index d = context.cols;
  for_each(exec, context.rows * d, [=] ROSSBY_ON_DEVICE(Index number) {
    const Index s = number / d, f = number % d;
    T sum = T(0);
    for (Index q = 0; q < u.cols; ++q)
      sum += u.row(sample[s].row)[q] * from[(sample[s].col * u.cols + q) * d + f];
    context.row(s)[f] = sum;
  });
}

template <class T>
void sampled_low_rank_backward(const Exec& exec, std::span<T> d_sums, T* du, MatrixView<const T> u,
                               std::span<const T> sums, std::span<const Sample> samples,
                               MatrixView<const T> d_context) {
  const Sample* sample = listed(exec, samples);
  const Index d = d_context.cols, k = u.cols;
  T* to = d_sums.data();
  const T* from = sums.data();
  for_each(exec, k * d, [=] ROSSBY_ON_DEVICE(Index number) {
    for (Index s = 0; s < d_context.rows; ++s)
      to[sample[s].col * k * d + number] += u.row(sample[s].row)[number / d] * d_context.row(s)[number % d];
  });
  if (du)
    for_each_share(exec, u.rows, k, many_shares, [=] ROSSBY_ON_DEVICE(const Share& share, Index q) {
      for (Index s = 0; s < d_context.rows; ++s) {
        if (!share.has(sample[s].row)) continue;
        T sum = T(0);
        for (Index f = 0; f < d; ++f) sum += from[(sample[s].col * k + q) * d + f] * d_context.row(s)[f];
        du[sample[s].row * k + q] += sum;
      }
    });
}

template <class T>
void sampled_self_forward(const Exec& exec, MatrixView<T> context, const T* weight,
                          std::span<const Sample> samples, NodeView<const T> z) {
  const Sample* sample = listed(exec, samples);
  for_each(exec, context.rows * context.cols, [=] ROSSBY_ON_DEVICE(Index number) {
    const Index s = number / context.cols, f = number % context.cols;
    context.row(s)[f] = effective(weight[sample[s].row], true) * z.at(sample[s].row, sample[s].col)[f];
  });
}

template <class T>
void sampled_self_backward(const Exec& exec, NodeView<T> dz, T* dweight, const T* weight,
                           std::span<const Sample> samples, MatrixView<const T> d_context,
                           NodeView<const T> z) {
  const Sample* sample = listed(exec, samples);
  const Index d = d_context.cols;
  if (dz.data)
    for_each_share(exec, z.rows, d, many_shares, [=] ROSSBY_ON_DEVICE(const Share& share, Index f) {
      for (Index s = 0; s < d_context.rows; ++s)
        if (share.has(sample[s].row))
          dz.at(sample[s].row, sample[s].col)[f] +=
              effective(weight[sample[s].row], true) * d_context.row(s)[f];
    });
  if (dweight)
    for_each_share(exec, z.rows, 1, many_shares, [=] ROSSBY_ON_DEVICE(const Share& share, Index) {
      for (Index s = 0; s < d_context.rows; ++s) {
        const Index row = sample[s].row;
        if (!share.has(row) || !passes_gradient(weight[row], true)) continue;
        const T* x = z.at(row, sample[s].col);
        for (Index f = 0; f < d; ++f) dweight[row] += d_context.row(s)[f] * x[f];
      }
    });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(gather_samples, scatter_add_samples, sampled_sparse_forward, sampled_sparse_backward,
                        sampled_dense_forward, sampled_dense_backward, sampled_low_rank_forward,
                        sampled_low_rank_backward, sampled_self_forward, sampled_self_backward)
