#include <cstdint>
#include <type_traits>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sparse.hpp"

namespace rossby::ROSSBY_DEVICE {

namespace {

/// Neighbouring channels that one load brings.
template <class T, int n>
struct alignas(sizeof(T) * n) Run {
  T value[n];
};

/// Channels of a run that 16 bytes hold.
template <class T>
inline constexpr int whole_run = static_cast<int>(16 / sizeof(T));

/// Whether every run of a view lies where one load can bring it.
template <class T>
bool in_runs(const NodeView<T>& view) {
  constexpr int n = whole_run<std::remove_const_t<T>>;
  return view.channels % n == 0 && view.row_stride % n == 0 && view.col_stride % n == 0 &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

template <int n, class T>
ROSSBY_ON_DEVICE Run<std::remove_const_t<T>, n> load(T* at) {
  return *reinterpret_cast<const Run<std::remove_const_t<T>, n>*>(at);
}

/// A thread a run of results: neighbouring threads read neighbouring values of the same rows, and an entry's
/// weight and column serve all of a run.
template <int n, class T>
void forward_in_runs(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha,
                     NodeView<const T> minus, std::span<const LocalColumn> rows, NodeView<const T> owned,
                     NodeView<const T> ghost) {
  const DeviceCsr csr(exec, *s.block);
  const LocalColumn* listed = exec.device->on_device(rows);
  const Columns<T> x{owned, ghost};
  const T* weight = s.weight;
  const Index relation = s.relation;
  const Entries entries{std::ssize(rows), y.cols, y.channels / n, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index q, Index b, Index run) {
    const Index i = listed[q], list = i * csr.relations + relation, c = run * n;
    Run<T, n> sum{};
    for (Index e = csr.ptr[list]; e < csr.ptr[list + 1]; ++e) {
      const Run<T, n> from = load<n>(x.at(csr.column[e], b) + c);
      const T factor = weight[e];
      ROSSBY_UNROLL
      for (int p = 0; p < n; ++p) sum.value[p] += factor * from.value[p];
    }
    ROSSBY_UNROLL
    for (int p = 0; p < n; ++p) sum.value[p] *= alpha;
    if (minus.data) {
      const Run<T, n> less = load<n>(minus.at(i, b) + c);
      ROSSBY_UNROLL
      for (int p = 0; p < n; ++p) sum.value[p] -= less.value[p];
    }
    *reinterpret_cast<Run<T, n>*>(y.at(i, b) + c) = sum;
  });
}

template <int n, class T>
void adjoint_in_runs(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                     NodeView<const T> dy) {
  const DeviceCsr csr(exec, *s.block);
  const T* weight = s.weight;
  const Index relation = s.relation;
  const Entries entries{dx.rows, dx.cols, dx.channels / n, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index j, Index b, Index run) {
    const Index list = (first + j) * csr.relations + relation, c = run * n;
    Run<T, n> sum{};
    for (Index p = csr.t_ptr[list]; p < csr.t_ptr[list + 1]; ++p) {
      const Run<T, n> from = load<n>(dy.at(csr.t_row[p], b) + c);
      const T factor = weight[csr.t_entry[p]];
      ROSSBY_UNROLL
      for (int q = 0; q < n; ++q) sum.value[q] += factor * from.value[q];
    }
    Run<T, n> to = load<n>(dx.at(j, b) + c);
    ROSSBY_UNROLL
    for (int q = 0; q < n; ++q) to.value[q] += alpha * sum.value[q];
    *reinterpret_cast<Run<T, n>*>(dx.at(j, b) + c) = to;
  });
}

}  // namespace

template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  const bool runs =
      in_runs(y) && (!minus.data || in_runs(minus)) && in_runs(owned) && (ghost.rows == 0 || in_runs(ghost));
  if (runs) return forward_in_runs<whole_run<T>>(exec, y, s, alpha, minus, rows, owned, ghost);
  forward_in_runs<1>(exec, y, s, alpha, minus, rows, owned, ghost);
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  if (in_runs(dx) && in_runs(dy)) return adjoint_in_runs<whole_run<T>>(exec, dx, s, alpha, first, dy);
  adjoint_in_runs<1>(exec, dx, s, alpha, first, dy);
}

#define ROSSBY_INSTANTIATE(T)                                                                        \
  template void spmm_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, NodeView<const T>, \
                             std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>);    \
  template void spmm_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, Index, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::ROSSBY_DEVICE
