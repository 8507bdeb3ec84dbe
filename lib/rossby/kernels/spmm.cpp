#include "rossby/kernels/spmm.hpp"

#include <algorithm>

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

template <class T>
void launch(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
            std::span<const LocalColumn> rows) {
  if (exec.backend == Backend::simulated) return simulated::spmm_products(exec, s, products, rows);
  ROSSBY_FROM_CUDA(spmm_products, exec, s, products, rows);
}
template <class T>
void launch(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseGradient<T>> gradients,
            Index first) {
  if (exec.backend == Backend::simulated) return simulated::spmm_gradients(exec, s, gradients, first);
  ROSSBY_FROM_CUDA(spmm_gradients, exec, s, gradients, first);
}

}  // namespace

template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  require(s.block && s.relation >= 0 && s.relation < s.block->relations, "spmm: no such relation");
  require(y.rows == s.block->rows && owned.rows == s.block->rows, "spmm: rows are the owned rows");
  require(same_width(y, owned) && (ghost.rows == 0 || same_width(y, ghost)), "spmm: widths differ");
  require(!minus.data || (minus.rows == y.rows && same_width(y, minus)), "spmm: widths differ");
  require(!s.sparse_library || on_device(exec.backend), "spmm: libraries multiply on devices");
  if (rows.empty() || y.width() == 0) return;
  // All rows are listed once.
  if (s.sparse_library && std::ssize(rows) == y.rows && s.sparse_library->takes(y, owned)) {
    if (minus.data) pack(exec, y, minus);
    return s.sparse_library->multiply(s.relation, false, y, alpha, owned, minus.data ? T{-1} : T{0});
  }
  ROSSBY_DISPATCH(spmm_forward, exec, y, s, alpha, minus, rows, owned, ghost);
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  require(s.block && s.relation >= 0 && s.relation < s.block->relations, "spmm: no such relation");
  require(dy.rows == s.block->rows, "spmm: rows are the owned rows");
  require(!s.sparse_library || on_device(exec.backend), "spmm: libraries multiply on devices");
  require(first >= 0 && first + dx.rows <= s.block->columns(), "spmm: columns are those of the block");
  if (dx.size() == 0 || dy.rows == 0) return;
  require(same_width(dx, dy), "spmm: widths differ");
  if (s.sparse_library && s.sparse_library->takes(dx, dy))
    return s.sparse_library->multiply(s.relation, true, dx, alpha, dy, T{1});
  ROSSBY_DISPATCH(spmm_adjoint, exec, dx, s, alpha, first, dy);
}

template <class T>
void spmm_forward(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
                  std::span<const LocalColumn> rows) {
  require(s.block, "spmm: no block");
  if (products.empty() || rows.empty() || products[0].y.width() == 0) return;
  for (const SparseProduct<T>& p : products) {
    require(p.relation < s.block->relations, "spmm: no such relation");
    require(p.y.rows == s.block->rows && p.owned.rows == p.y.rows, "spmm: rows are the owned rows");
    require(same_width(p.y, products[0].y) && same_width(p.y, p.owned), "spmm: widths differ");
    require(p.ghost.rows == 0 || same_width(p.y, p.ghost), "spmm: widths differ");
    require(!p.minus.data || (p.minus.rows == p.y.rows && same_width(p.y, p.minus)), "spmm: widths differ");
  }
  if (on_device(exec.backend) && !s.sparse_library) {
    for (; !products.empty(); products = products.subspan(std::min(products.size(), most_sparse_products)))
      launch(exec, s, products.first(std::min(products.size(), most_sparse_products)), rows);
    return;
  }
  for (const SparseProduct<T>& p : products) {
    SparseMatrix<T> one = s;
    one.relation = p.relation;
    if (p.relation >= 0) {
      spmm_forward(exec, p.y, one, p.alpha, p.minus, rows, p.owned, p.ghost);
      continue;
    }
    require(std::ssize(rows) == p.y.rows, "spmm: a product without a relation is one of all rows");
    pack(exec, p.y, p.owned);
    if (p.alpha != T{1}) scale(exec, p.y, p.alpha, NodeView<const T>(p.y));
    if (p.minus.data) accumulate(exec, p.y, T{-1}, p.minus);
  }
}

template <class T>
void spmm_adjoint(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseGradient<T>> gradients,
                  Index first) {
  require(s.block, "spmm: no block");
  if (gradients.empty() || gradients[0].to.size() == 0) return;
  bool fits = on_device(exec.backend) && !s.sparse_library;
  for (const SparseGradient<T>& g : gradients) {
    require(first >= 0 && first + g.to.rows <= s.block->columns() && g.to.rows == gradients[0].to.rows,
            "spmm: columns are those of the block");
    require(same_width(g.to, gradients[0].to) && (!g.start.data || same_width(g.to, g.start)),
            "spmm: widths differ");
    for (const SparseShare<T>& share : g.shares) {
      require(share.relation < s.block->relations, "spmm: no such relation");
      require(share.dy.rows == s.block->rows && same_width(g.to, share.dy), "spmm: rows are the owned rows");
      require(share.relation >= 0 || (first == 0 && g.to.rows == s.block->rows),
              "spmm: a share without a relation is one of owned rows");
    }
    fits = fits && g.shares.size() <= most_sparse_shares;
  }
  if (fits) {
    for (; !gradients.empty();
         gradients = gradients.subspan(std::min(gradients.size(), most_sparse_products)))
      launch(exec, s, gradients.first(std::min(gradients.size(), most_sparse_products)), first);
    return;
  }
  for (const SparseGradient<T>& g : gradients) {
    if (g.start.data) accumulate(exec, g.to, T{1}, g.start);
    for (const SparseShare<T>& share : g.shares) {
      SparseMatrix<T> one = s;
      one.relation = share.relation;
      if (share.relation >= 0)
        spmm_adjoint(exec, g.to, one, share.alpha, first, share.dy);
      else
        accumulate(exec, g.to, share.alpha, share.dy);
    }
  }
}

#define ROSSBY_INSTANTIATE(T)                                                                                \
  template void spmm_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, NodeView<const T>,         \
                             std::span<const LocalColumn>, NodeView<const T>, NodeView<const T>);            \
  template void spmm_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, T, Index, NodeView<const T>); \
  template void spmm_forward(const Exec&, const SparseMatrix<T>&, std::span<const SparseProduct<T>>,         \
                             std::span<const LocalColumn>);                                                  \
  template void spmm_adjoint(const Exec&, const SparseMatrix<T>&, std::span<const SparseGradient<T>>, Index);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
