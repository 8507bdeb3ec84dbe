#include "rossby/kernels/spmm.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/kernels/spmm_backends.hpp"

namespace rossby {
namespace {

template <class A, class B>
bool same_width(const NodeView<A>& a, const NodeView<B>& b) {
  return a.cols == b.cols && a.channels == b.channels;
}

}  // namespace

template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  require(s.block && s.relation >= 0 && s.relation < s.block->relations, "spmm: no such relation");
  require(y.rows == s.block->rows && owned.rows == s.block->rows, "spmm: rows are the owned rows");
  require(same_width(y, owned) && (ghost.rows == 0 || same_width(y, ghost)), "spmm: widths differ");
  require(!minus.data || (minus.rows == y.rows && same_width(y, minus)), "spmm: widths differ");
  require(!s.library || on_device(exec.backend), "spmm: libraries multiply on devices");
  if (rows.empty() || y.width() == 0) return;
  // All rows are listed once.
  if (s.library && std::ssize(rows) == y.rows && s.library->takes(y, owned)) {
    if (minus.data) pack(exec, y, minus);
    return s.library->multiply(s.relation, false, y, alpha, owned, minus.data ? T{-1} : T{0});
  }
  ROSSBY_DISPATCH(spmm_forward, exec, y, s, alpha, minus, rows, owned, ghost);
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  require(s.block && s.relation >= 0 && s.relation < s.block->relations, "spmm: no such relation");
  require(dy.rows == s.block->rows, "spmm: rows are the owned rows");
  require(!s.library || on_device(exec.backend), "spmm: libraries multiply on devices");
  require(first >= 0 && first + dx.rows <= s.block->columns(), "spmm: columns are those of the block");
  if (dx.size() == 0 || dy.rows == 0) return;
  require(same_width(dx, dy), "spmm: widths differ");
  if (s.library && s.library->takes(dx, dy))
    return s.library->multiply(s.relation, true, dx, alpha, dy, T{1});
  ROSSBY_DISPATCH(spmm_adjoint, exec, dx, s, alpha, first, dy);
}

#define ROSSBY_INSTANTIATE(T)                                                                        \
  template void spmm_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, NodeView<const T>, \
                             std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>);    \
  template void spmm_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, Index, NodeView<const T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
