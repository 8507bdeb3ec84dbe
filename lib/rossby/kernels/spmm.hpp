#pragma once

#include <span>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/view.hpp"

// One sparse relation of a row block times node data, for diffusion and graph convolutions.

namespace rossby {

/// Relation number `relation` of a block as a matrix S (owned rows, owned rows + ghosts).
template <class T>
struct SparseMatrix {
  const CsrBlock* block = nullptr;
  int relation = 0;
  const T* weight = nullptr;  // (entries) of the whole block
  /// On a device: the library that multiplies if it can; null: own kernels.
  SparseLibrary<T>* sparse_library = nullptr;
};

template <class A, class B>
bool same_width(const NodeView<A>& a, const NodeView<B>& b) {
  return a.cols == b.cols && a.channels == b.channels;
}

/// y[i] = alpha·Σ_e S_e x[column_e] − minus[i] for the listed rows i. If `minus` has no data, nothing is
/// subtracted. x is `owned` for owned columns and `ghost` for the others; `ghost` may be empty if the rows
/// are interior. All views may be strided and have matching shapes (rows, B, c); y overlaps no input.
template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  require(s.block && s.relation >= 0 && s.relation < s.block->relations, "spmm: no such relation");
  require(y.rows == s.block->rows && owned.rows == s.block->rows, "spmm: rows are the owned rows");
  require(same_width(y, owned) && (ghost.rows == 0 || same_width(y, ghost)), "spmm: widths differ");
  require(!minus.data || (minus.rows == y.rows && same_width(y, minus)), "spmm: widths differ");
  require(!s.sparse_library || on_device(exec.backend), "spmm: libraries multiply on devices");
  if (rows.empty() || y.width() == 0) return;
  // Rows are distinct, so this list holds all of them.
  if (s.sparse_library && std::ssize(rows) == y.rows && s.sparse_library->takes(y, owned)) {
    if (minus.data) pack(exec, y, minus);
    return s.sparse_library->multiply(s.relation, false, y, alpha, owned, minus.data ? T{-1} : T{0});
  }
  dispatch<spmm_forward<T>>(exec, y, s, alpha, minus, rows, owned, ghost);
}

/// The adjoint over columns: dx[c] += alpha·Σ_e S_e dy[row_e] for the columns [first, first + dx.rows), in
/// the order of the transposed index. dx does not overlap dy.
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
  dispatch<spmm_adjoint<T>>(exec, dx, s, alpha, first, dy);
}

/// Limits of one launch: products or gradients, and shares of a gradient.
inline constexpr std::size_t most_sparse_products = 4, most_sparse_shares = 4;

/// One of several products of a block's relations: y = alpha·S x − minus, or alpha·x − minus of the same row
/// if relation < 0.
template <class T>
struct SparseProduct {
  int relation = -1;
  T alpha = 1;
  NodeView<T> y;
  NodeView<const T> owned, ghost, minus;  // as in spmm_forward
};

/// Computes each product for the listed rows. All views have one shape. No product reads the output of
/// another: devices compute them concurrently. The relation of `s` is ignored.
template <class T>
void spmm_products(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
                   std::span<const LocalColumn> rows);

/// The contribution of another gradient: alpha·Sᵀ dy, or alpha·dy if relation < 0.
template <class T>
struct SparseShare {
  int relation = -1;
  T alpha = 1;
  NodeView<const T> dy;
};

/// to += start + shares, in that order; `start` may be null.
template <class T>
struct SparseGradient {
  NodeView<T> to;
  NodeView<const T> start;
  std::span<const SparseShare<T>> shares;
};

/// Computes each gradient over the columns [first, first + to.rows). As above, no `to` is the `dy` of
/// another. Shares without a relation belong to owned columns (first = 0).
template <class T>
void spmm_gradients(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseGradient<T>> gradients,
                    Index first);

}  // namespace rossby
