#include "rossby/kernels/spmm.hpp"

#include "rossby/base/error.hpp"
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
  if (rows.empty() || y.width() == 0) return;
  ROSSBY_DISPATCH(spmm_forward, exec, y, s, alpha, minus, rows, owned, ghost);
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  require(s.block && s.relation >= 0 && s.relation < s.block->relations, "spmm: no such relation");
  require(dy.rows == s.block->rows, "spmm: rows are the owned rows");
  require(first >= 0 && first + dx.rows <= s.block->columns(), "spmm: columns are those of the block");
  if (dx.size() == 0 || dy.rows == 0) return;
  require(same_width(dx, dy), "spmm: widths differ");
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
