#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/product.hpp"
#include "rossby/kernels/device/sparse.hpp"
#include "rossby/kernels/relate.hpp"

namespace rossby::ROSSBY_DEVICE {

/// One thread per output: it sums the context of a row again for each of the few output channels, from values
/// that are in the first-level cache by then.
template <class T>
void relate_sparse_forward(const Exec& exec, NodeView<T> h, const SparseRelate<T>& relate,
                           const IdentityBlock<T>& identity, std::span<const LocalColumn> rows,
                           NodeView<const T> owned, NodeView<const T> ghost, std::span<T>) {
  const DeviceCsr csr(exec, *relate.block);
  const LocalColumn* listed = exec.device->on_device(rows);
  const Columns<T> z{owned, ghost};
  const T* weight = relate.weight;
  const MatrixView<const T> a = relate.a;
  const IdentityBlock<T> self = identity;
  const bool clamped = relate.clamped;
  const Index d = relate.a.cols / relate.block->relations;
  const Entries entries{std::ssize(rows), h.cols, h.channels, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index q, Index b, Index o) {
    const Index i = listed[q];
    T sum = self.a.data ? (self.bias ? self.bias[o] : T(0)) : h.at(i, b)[o];
    if (self.a.data) {
      const T* own = owned.at(i, b);
      for (Index f = 0; f < d; ++f) sum += own[f] * self.a.row(o)[f];
    }
    for (Index e = csr.ptr[i * csr.relations]; e < csr.ptr[(i + 1) * csr.relations]; ++e) {
      const T* from = z.at(csr.column[e], b);
      const T* block = a.row(o) + csr.relation[e] * d;
      T product = T(0);
      for (Index f = 0; f < d; ++f) product += from[f] * block[f];
      sum += effective(weight[e], clamped) * product;
    }
    h.at(i, b)[o] = sum;
  });
}

/// Three sweeps over the transposed index: dz with a thread per value, dM with a thread per entry, dA in
/// partial sums.
template <class T>
void relate_sparse_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, T* dm,
                            const SparseRelate<T>& relate, const IdentityBlock<T>& identity,
                            const IdentityGradient<T>& d_identity, Index first, NodeView<const T> delta,
                            NodeView<const T> z, std::span<T>) {
  const DeviceCsr csr(exec, *relate.block);
  const T* weight = relate.weight;
  const MatrixView<const T> a = relate.a;
  const MatrixView<const T> own = identity.a;
  const bool clamped = relate.clamped;
  const Index d = relate.a.cols / relate.block->relations, w = delta.channels;
  if (dz.data)
    for_each_entry(exec, numbered(dz), [=] ROSSBY_ON_DEVICE(Index j, Index b, Index f) {
      T sum = T(0);
      if (own.data)
        for (Index o = 0; o < w; ++o) sum += delta.at(j, b)[o] * own.row(o)[f];
      const Index column = first + j;
      for (Index p = csr.t_ptr[column * csr.relations]; p < csr.t_ptr[(column + 1) * csr.relations]; ++p) {
        const T* g = delta.at(csr.t_row[p], b);
        const Index at = csr.t_relation[p] * d + f;
        T product = T(0);
        for (Index o = 0; o < w; ++o) product += g[o] * a.row(o)[at];
        sum += effective(weight[csr.t_entry[p]], clamped) * product;
      }
      dz.at(j, b)[f] += sum;
    });
  if (dm) {
    const Index begin = relate.block->t_ptr[static_cast<std::size_t>(first * csr.relations)];
    const Index end = relate.block->t_ptr[static_cast<std::size_t>((first + z.rows) * csr.relations)];
    for_each(exec, end - begin, [=] ROSSBY_ON_DEVICE(Index q) {
      const Index p = begin + q, e = csr.t_entry[p];
      if (!passes_gradient(weight[e], clamped)) return;
      const Index j = csr.column[e] - first, row = csr.t_row[p], at = csr.t_relation[p] * d;
      T sum = T(0);
      for (Index b = 0; b < delta.cols; ++b)
        for (Index o = 0; o < w; ++o) {
          T product = T(0);
          for (Index f = 0; f < d; ++f) product += a.row(o)[at + f] * z.at(j, b)[f];
          sum += delta.at(row, b)[o] * product;
        }
      dm[e] += sum;
    });
  }
  if (da.data)
    sum_rows(
        exec, z.rows, w * a.cols,
        [=] ROSSBY_ON_DEVICE(Index j, Index k) {
          const Index o = k / a.cols, f = k % a.cols % d, list = (first + j) * csr.relations + k % a.cols / d;
          T sum = T(0);
          for (Index p = csr.t_ptr[list]; p < csr.t_ptr[list + 1]; ++p) {
            T product = T(0);
            for (Index b = 0; b < delta.cols; ++b) product += delta.at(csr.t_row[p], b)[o] * z.at(j, b)[f];
            sum += effective(weight[csr.t_entry[p]], clamped) * product;
          }
          return static_cast<double>(sum);
        },
        [=] ROSSBY_ON_DEVICE(Index k, double sum) { da.row(k / a.cols)[k % a.cols] += static_cast<T>(sum); });
  if (!own.data) return;
  const MatrixView<const T> g(delta.data, delta.rows * delta.cols, w);
  if (d_identity.da.data)
    product(exec, d_identity.da, Operand::transposed, g, Operand::plain,
            MatrixView<const T>(z.data, z.rows * z.cols, d), true);
  if (d_identity.dbias) add_column_sums(exec, d_identity.dbias, g);
}

template <class T>
Index relate_sparse_workspace(const Exec&, const SparseRelate<T>&, Index, Index) {
  return 0;
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(relate_sparse_workspace, relate_sparse_forward, relate_sparse_backward)
