#include "rossby/kernels/relate.hpp"

#include "rossby/kernels/clamp.hpp"

// The truth: the sums of the contract, written out.

namespace rossby::reference {
namespace {

template <class T>
const T* column(NodeView<const T> owned, NodeView<const T> ghost, Index c, Index b) {
  return c < owned.rows ? owned.at(c, b) : ghost.at(c - owned.rows, b);
}

}  // namespace

template <class T>
void relate_sparse_forward(const Exec&, NodeView<T> h, const SparseRelate<T>& relate,
                           const IdentityBlock<T>& identity, std::span<const LocalColumn> rows,
                           NodeView<const T> owned, NodeView<const T> ghost, std::span<T>) {
  const CsrBlock& w = *relate.block;
  const Index d = relate.a.cols / w.relations;
  for (const LocalColumn i : rows) {
    for (Index b = 0; identity.a.data && b < h.cols; ++b)
      for (Index o = 0; o < h.channels; ++o) {
        h.at(i, b)[o] = identity.bias ? identity.bias[o] : T(0);
        for (Index f = 0; f < d; ++f) h.at(i, b)[o] += owned.at(i, b)[f] * identity.a.row(o)[f];
      }
    for (int k = 0; k < w.relations; ++k)
      for (Index e = w.ptr[i * w.relations + k]; e < w.ptr[i * w.relations + k + 1]; ++e)
        for (Index b = 0; b < h.cols; ++b)
          for (Index o = 0; o < h.channels; ++o)
            for (Index f = 0; f < d; ++f)
              h.at(i, b)[o] += effective(relate.weight[e], relate.clamped) *
                               column(owned, ghost, w.column[e], b)[f] * relate.a.row(o)[k * d + f];
  }
}

/// The identity as one more relation whose entries are 1.
template <class T>
void identity_backward(NodeView<T> dz, const IdentityBlock<T>& identity,
                       const IdentityGradient<T>& d_identity, NodeView<const T> delta, NodeView<const T> z) {
  for (Index i = 0; i < z.rows; ++i)
    for (Index b = 0; b < z.cols; ++b)
      for (Index o = 0; o < delta.channels; ++o) {
        const T g = delta.at(i, b)[o];
        if (d_identity.dbias) d_identity.dbias[o] += g;
        for (Index f = 0; f < z.channels; ++f) {
          if (dz.data) dz.at(i, b)[f] += g * identity.a.row(o)[f];
          if (d_identity.da.data) d_identity.da.row(o)[f] += g * z.at(i, b)[f];
        }
      }
}

template <class T>
void relate_sparse_backward(const Exec&, NodeView<T> dz, MatrixView<T> da, T* dm,
                            const SparseRelate<T>& relate, const IdentityBlock<T>& identity,
                            const IdentityGradient<T>& d_identity, Index first, NodeView<const T> delta,
                            NodeView<const T> z, std::span<T>) {
  if (identity.a.data) identity_backward<T>(dz, identity, d_identity, delta, z);
  const CsrBlock& w = *relate.block;
  const Index d = relate.a.cols / w.relations;
  for (Index i = 0; i < w.rows; ++i)
    for (int k = 0; k < w.relations; ++k)
      for (Index e = w.ptr[i * w.relations + k]; e < w.ptr[i * w.relations + k + 1]; ++e) {
        const Index j = w.column[e] - first;
        if (j < 0 || j >= z.rows) continue;
        const T weight = effective(relate.weight[e], relate.clamped);
        for (Index b = 0; b < delta.cols; ++b)
          for (Index o = 0; o < delta.channels; ++o)
            for (Index f = 0; f < d; ++f) {
              const T g = delta.at(i, b)[o];
              const T a = relate.a.row(o)[k * d + f];
              if (dz.data) dz.at(j, b)[f] += weight * g * a;
              if (da.data) da.row(o)[k * d + f] += weight * g * z.at(j, b)[f];
              if (dm && passes_gradient(relate.weight[e], relate.clamped)) dm[e] += g * a * z.at(j, b)[f];
            }
      }
}

template <class T>
Index relate_sparse_workspace(const Exec&, const SparseRelate<T>&, Index, Index) {
  return 0;
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, relate_sparse_workspace, relate_sparse_forward, relate_sparse_backward)
