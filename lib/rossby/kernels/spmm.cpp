#include "rossby/kernels/spmm.hpp"

#include <algorithm>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/sparse_library.hpp"

namespace rossby {

template <class T>
void spmm_products(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
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
      run_on_device<spmm_products<T>>(exec, s,
                                      products.first(std::min(products.size(), most_sparse_products)), rows);
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
void spmm_gradients(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseGradient<T>> gradients,
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
      run_on_device<spmm_gradients<T>>(
          exec, s, gradients.first(std::min(gradients.size(), most_sparse_products)), first);
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

ROSSBY_FOR_SCALARS(spmm_products)
ROSSBY_FOR_SCALARS(spmm_gradients)

}  // namespace rossby
