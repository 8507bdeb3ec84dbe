#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/view.hpp"

// One sparse relation of a row block times node data: what diffusion and graph convolutions are made of.

namespace rossby {

template <class T>
class SparseLibrary;

/// Relation number `relation` of a block as a matrix S (owned rows, owned rows + ghosts).
template <class T>
struct SparseMatrix {
  const CsrBlock* block = nullptr;
  int relation = 0;
  const T* weight = nullptr;  // (entries) of the whole block
  /// Of a device: what multiplies where it can; null: own kernels do.
  SparseLibrary<T>* library = nullptr;
};

/// y[i] = alpha·Σ_e S_e x[column_e] − minus[i] for the listed rows i. `minus` may be null (no data): then
/// nothing is taken away. x is `owned` for owned columns and `ghost` for the others; `ghost` may be empty
/// where the rows are interior. All may be strided, shapes (rows, B, c) agree; y overlaps no input.
template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost);

/// The adjoint over columns: dx[c] += alpha·Σ_e S_e dy[row_e] for the columns [first, first + dx.rows), in
/// the order of the transposed index. dx overlaps dy nowhere.
template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy);

}  // namespace rossby
