#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/relate_dense.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/view.hpp"

// Contract of the relation kernels: h += Σ_k (W_k z) A_kᵀ and its adjoint, for sparse, dense, low-rank and
// self relations.
//
//   z        (columns, B, d)  node data; columns are owned rows, then ghosts (sparse) or all positions
//   (dense) h, δ     (rows, B, w)     the layer's output and its gradient; packed A        (w, r·d) block k
//   of d columns belongs to relation k; row stride may be larger weights  one per entry (sparse), (r, rows,
//   columns) (dense); effective weight = clamp(M, 0, 1) where `clamped`
//
// The context W_k z is never stored: it lives in a tile of rows. The backward sweep of sparse relations runs
// over columns: u_k = W_kᵀ δ gives dz += u_k A_k, dA_k += u_kᵀ z, and dM_e = ⟨δ_row, A_k z_column⟩, so one
// transposed pass serves all three. Ziat et al., "Spatio-temporal neural networks for space-time series
// forecasting and relations discovery", ICDM 2017.

namespace rossby {

/// Sparse relations of one term, their weights and the layer's weight block.
template <class T>
struct SparseRelate {
  const CsrBlock* block = nullptr;
  const T* weight = nullptr;  // (entries)
  bool clamped = false;
  MatrixView<const T> a;  // (w, r·d)
};

/// The identity's part of a layer, bias + z A_0ᵀ, taken along by the sweep over sparse relations.
template <class T>
struct IdentityBlock {
  MatrixView<const T> a;    // (w, d); data null: the sweep adds to what is there
  const T* bias = nullptr;  // (w); null: zero
};

/// Where the gradients of an IdentityBlock go (+=); each may be null.
template <class T>
struct IdentityGradient {
  MatrixView<T> da;
  T* dbias = nullptr;
};

/// Scratch values that relate_sparse_forward and relate_sparse_backward need for B columns.
template <class T>
Index relate_sparse_workspace(const Exec& exec, const SparseRelate<T>& relate, Index cols, Index channels);

/// For the listed rows i, h[i] = bias + z[i] A_0ᵀ + Σ_k (W_k z)[i] A_kᵀ; without an identity block h[i] +=
/// the sum over k. `ghost` may be empty where the rows are interior.
template <class T>
void relate_sparse_forward(const Exec& exec, NodeView<T> h, const SparseRelate<T>& relate,
                           const IdentityBlock<T>& identity, std::span<const LocalColumn> rows,
                           NodeView<const T> owned, NodeView<const T> ghost, std::span<T> workspace);

/// Backward over the columns [first, first + z.rows): dz (z.rows, B, d) += , da (w, r·d) += , dm (entries)
/// +=; each may be null (no data). `z` holds those columns' values. Entries whose weight is not strictly
/// inside (0, 1) get no gradient where clamped. With an identity block (owned columns only: first = 0 and
/// z.rows = owned rows) its share of dz and its gradients are added too. Sums run in an order that does not
/// depend on the number of threads.
template <class T>
void relate_sparse_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, T* dm,
                            const SparseRelate<T>& relate, const IdentityBlock<T>& identity,
                            const IdentityGradient<T>& d_identity, Index first, NodeView<const T> delta,
                            NodeView<const T> z, std::span<T> workspace);

/// One sampled (time, node) pair: local row and column (time step) of z.
struct Sample {
  Index row = 0;
  Index col = 0;
};

}  // namespace rossby
