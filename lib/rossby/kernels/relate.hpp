#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/relate_dense.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/view.hpp"

// Contract of the relation kernels: h += Σ_k (W_k z) A_kᵀ and its adjoint, for sparse, dense, low-rank and
// self relations.
//
//   z        (columns, B, d)  node data; columns are owned rows, then ghosts (sparse),
//                             or all positions (dense)
//   h, δ     (rows, B, w)     the layer's output and its gradient; packed
//   A        (w, r·d)         block k of d columns belongs to relation k; row stride may be larger
//   weights                   one per entry (sparse), (r, rows, columns) (dense);
//                             effective weight = clamp(M, 0, 1) if `clamped`
//
// The context W_k z is never stored: it lives in a tile of rows. The backward sweep of sparse relations runs
// over columns: u_k = W_kᵀ δ gives dz += u_k A_k, dA_k += u_kᵀ z, and dM_e = ⟨δ_row, A_k z_column⟩, so one
// transposed pass serves all three. Source: Ziat et al., "Spatio-temporal neural networks for space-time
// series forecasting and relations discovery", ICDM 2017.

namespace rossby {

/// Sparse relations of one term, their weights and the layer's weight block.
template <class T>
struct SparseRelate {
  const CsrBlock* block = nullptr;
  const T* weight = nullptr;  // (entries)
  bool clamped = false;
  MatrixView<const T> a;  // (w, r·d)
};

/// The identity's part of a layer, bias + z A_0ᵀ, computed in the sweep over sparse relations.
template <class T>
struct IdentityBlock {
  MatrixView<const T> a;    // (w, d); data null: the sweep adds to the present values
  const T* bias = nullptr;  // (w); null: zero
};

/// Targets (+=) of the gradients of an IdentityBlock; each may be null.
template <class T>
struct IdentityGradient {
  MatrixView<T> da;
  T* dbias = nullptr;
};

/// Scratch values that relate_sparse_forward and relate_sparse_backward need for B columns.
template <class T>
Index relate_sparse_workspace(const Exec& exec, const SparseRelate<T>& relate, Index cols, Index channels) {
  if (is_of_host(exec)) return run_on_host<relate_sparse_workspace<T>>(exec, relate, cols, channels);
  return dispatch<relate_sparse_workspace<T>>(exec, relate, cols, channels);
}

/// Throws BugError unless the identity's block matches the relations' shapes.
template <class T>
void check_identity(const IdentityBlock<T>& identity, const SparseRelate<T>& relate) {
  require(!identity.a.data || (identity.a.rows == relate.a.rows &&
                               identity.a.cols * relate.block->relations == relate.a.cols),
          "relate: the identity's block must be as wide as each relation's");
  require(identity.a.data || !identity.bias, "relate: a bias goes with an identity block");
}

/// For the listed rows i, h[i] = bias + z[i] A_0ᵀ + Σ_k (W_k z)[i] A_kᵀ. Without an identity block, h[i] +=
/// the sum over k. `ghost` may be empty if the rows are interior.
template <class T>
void relate_sparse_forward(const Exec& exec, NodeView<T> h, const SparseRelate<T>& relate,
                           const IdentityBlock<T>& identity, std::span<const LocalColumn> rows,
                           NodeView<const T> owned, NodeView<const T> ghost, std::span<T> workspace) {
  check_layer<T>(h, relate.a, relate.block->relations, owned);
  check_identity<T>(identity, relate);
  require(h.rows == relate.block->rows && owned.rows == relate.block->rows,
          "relate: rows must be the owned rows");
  require(ghost.rows == 0 || ghost.packed(), "relate: ghosts must be packed");
  if (rows.empty()) return;
  require(static_cast<Index>(workspace.size()) >= relate_sparse_workspace(exec, relate, h.cols, h.channels),
          "relate: workspace too small");
  dispatch<relate_sparse_forward<T>>(exec, h, relate, identity, rows, owned, ghost, workspace);
}

/// Backward over the columns [first, first + z.rows): dz (z.rows, B, d) +=, da (w, r·d) +=, dm (entries) +=;
/// each may be null (no data). `z` holds the values of these columns. If clamped, entries whose weight is not
/// strictly inside (0, 1) get no gradient. With an identity block (owned columns only: first = 0 and z.rows =
/// owned rows) its share of dz and its gradients are added too. The order of sums does not depend on the
/// number of threads.
template <class T>
void relate_sparse_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, T* dm,
                            const SparseRelate<T>& relate, const IdentityBlock<T>& identity,
                            const IdentityGradient<T>& d_identity, Index first, NodeView<const T> delta,
                            NodeView<const T> z, std::span<T> workspace) {
  check_layer<T>(delta, relate.a, relate.block->relations, z);
  check_identity<T>(identity, relate);
  require(!identity.a.data || (first == 0 && z.rows == relate.block->rows),
          "relate: the identity goes with the owned columns");
  require(first >= 0 && first + z.rows <= relate.block->columns(), "relate: columns outside the block");
  require(!dz.data || (dz.packed() && dz.rows == z.rows && dz.width() == z.width()),
          "relate: dz must match z");
  require(!da.data || (da.rows == relate.a.rows && da.cols == relate.a.cols), "relate: da must match A");
  if (z.rows == 0) return;
  require(static_cast<Index>(workspace.size()) >=
              relate_sparse_workspace(exec, relate, delta.cols, delta.channels),
          "relate: workspace too small");
  dispatch<relate_sparse_backward<T>>(exec, dz, da, dm, relate, identity, d_identity, first, delta, z,
                                      workspace);
}

/// One sampled (time, node) pair: local row and column (time step) of z.
struct Sample {
  Index row = 0;
  Index col = 0;
};

}  // namespace rossby
