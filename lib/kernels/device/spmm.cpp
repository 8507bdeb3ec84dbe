#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sparse.hpp"

namespace rossby::ROSSBY_DEVICE {

/// A thread a result: neighbouring threads read neighbouring values of the same rows.
template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  const DeviceCsr csr(exec, *s.block);
  const LocalColumn* listed = exec.device->on_device(rows);
  const Columns<T> x{owned, ghost};
  const T* weight = s.weight;
  const Index relation = s.relation;
  const Entries entries{std::ssize(rows), y.cols, y.channels, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index q, Index b, Index c) {
    const Index i = listed[q], list = i * csr.relations + relation;
    T sum = T(0);
    for (Index e = csr.ptr[list]; e < csr.ptr[list + 1]; ++e) sum += weight[e] * x.at(csr.column[e], b)[c];
    sum *= alpha;
    if (minus.data) sum -= minus.at(i, b)[c];
    y.at(i, b)[c] = sum;
  });
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  const DeviceCsr csr(exec, *s.block);
  const T* weight = s.weight;
  const Index relation = s.relation;
  for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index j, Index b, Index c) {
    const Index list = (first + j) * csr.relations + relation;
    T sum = T(0);
    for (Index p = csr.t_ptr[list]; p < csr.t_ptr[list + 1]; ++p)
      sum += weight[csr.t_entry[p]] * dy.at(csr.t_row[p], b)[c];
    dx.at(j, b)[c] += alpha * sum;
  });
}

#define ROSSBY_INSTANTIATE(T)                                                                        \
  template void spmm_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, NodeView<const T>, \
                             std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>);    \
  template void spmm_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, Index, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::ROSSBY_DEVICE
