#pragma once

#include <span>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/view.hpp"

// One sparse relation of a row block times node data: what diffusion and graph convolutions are made of.

namespace rossby {

/// Relation number `relation` of a block as a matrix S (owned rows, owned rows + ghosts).
template <class T>
struct SparseMatrix {
  const CsrBlock* block = nullptr;
  int relation = 0;
  const T* weight = nullptr;  // (entries) of the whole block
  /// Of a device: what multiplies where it can; null: own kernels do.
  SparseLibrary<T>* sparse_library = nullptr;
};

template <class A, class B>
bool same_width(const NodeView<A>& a, const NodeView<B>& b) {
  return a.cols == b.cols && a.channels == b.channels;
}

/// y[i] = alpha·Σ_e S_e x[column_e] − minus[i] for the listed rows i. `minus` may be null (no data): then
/// nothing is taken away. x is `owned` for owned columns and `ghost` for the others; `ghost` may be empty
/// where the rows are interior. All may be strided, shapes (rows, B, c) agree; y overlaps no input.
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
  dispatch<spmm_forward<T>>(exec, y, s, alpha, minus, rows, owned, ghost);
}

/// The adjoint over columns: dx[c] += alpha·Σ_e S_e dy[row_e] for the columns [first, first + dx.rows), in
/// the order of the transposed index. dx overlaps dy nowhere.
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

/// What a launch takes of products or gradients, and of a gradient's shares.
inline constexpr std::size_t most_sparse_products = 4, most_sparse_shares = 4;

/// One of several products of a block's relations: y = alpha·S x − minus, or, where relation < 0, alpha·x −
/// minus of the same row.
template <class T>
struct SparseProduct {
  int relation = -1;
  T alpha = 1;
  NodeView<T> y;
  NodeView<const T> owned, ghost, minus;  // as of spmm_forward
};

/// Each of them for the listed rows. All views have one shape, and none reads what another writes: devices
/// compute them at once. The relation of `s` is not looked at.
template <class T>
void spmm_products(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
                   std::span<const LocalColumn> rows);

/// What a gradient gets of another one: alpha·Sᵀ dy, or alpha·dy where relation < 0.
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

/// Each of them, over the columns [first, first + to.rows), on the same conditions: no `to` is another one's
/// `dy`. Shares without a relation are of owned columns (first = 0).
template <class T>
void spmm_gradients(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseGradient<T>> gradients,
                    Index first);

}  // namespace rossby
