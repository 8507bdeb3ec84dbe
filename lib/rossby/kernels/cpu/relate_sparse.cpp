#include <algorithm>

#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/relate.hpp"

namespace rossby::cpu {
namespace {

// Pieces for threads: a fixed number, so that partial sums add up in one order at every number of threads.
constexpr Index groups = 32;
// Fewest rows for which a piece is worth its partial sums.
constexpr Index least_rows = 64;

Index active_groups(Index rows) {
  return std::clamp<Index>(rows / least_rows, 1, groups);
}

template <class T>
SparseLayer<T> layer_of(const SparseRelate<T>& relate, const IdentityBlock<T>& identity, Index cols,
                        Index channels) {
  const CsrBlock& block = *relate.block;
  return {block.ptr.data(),
          block.column.data(),
          block.relation.data(),
          block.t_ptr.data(),
          block.t_row.data(),
          block.t_entry.data(),
          block.t_relation.data(),
          block.rows,
          block.entries(),
          block.relations,
          relate.weight,
          relate.clamped,
          cols,
          relate.a.cols / std::max(block.relations, 1),
          channels,
          relate.a.data,
          relate.a.stride,
          identity.a.data,
          identity.a.stride,
          identity.bias};
}

}  // namespace

template <class T>
Index relate_sparse_workspace(const Exec& exec, const SparseRelate<T>& relate, Index cols, Index channels) {
  // Tiles depend on whether the identity's plane is present.
  const SparseKernels<T>& kernels = kernels_of<SparseKernels, T>(exec.isa);
  Index size = 0;
  for (const IdentityBlock<T>& identity : {IdentityBlock<T>{}, IdentityBlock<T>{relate.a, nullptr}}) {
    const SparseLayer<T> layer = layer_of(relate, identity, cols, channels);
    size = std::max(size, kernels.shared_size(layer) + groups * kernels.group_size(layer));
  }
  return size;
}

template <class T>
void relate_sparse_forward(const Exec& exec, NodeView<T> h, const SparseRelate<T>& relate,
                           const IdentityBlock<T>& identity, std::span<const LocalColumn> rows,
                           NodeView<const T> owned, NodeView<const T> ghost, std::span<T> workspace) {
  const SparseKernels<T>& kernels = kernels_of<SparseKernels, T>(exec.isa);
  const SparseLayer<T> layer = layer_of(relate, identity, h.cols, h.channels);
  T* shared = workspace.data();
  T* own = shared + kernels.shared_size(layer);
  const Index size = kernels.group_size(layer);
  kernels.prepare(layer, shared);
  const auto count = static_cast<Index>(rows.size());
  const Index active = active_groups(count);
#pragma omp parallel for num_threads(exec.threads) schedule(dynamic, 1) if (exec.threads > 1)
  for (Index group = 0; group < active; ++group) {
    const Index first = count * group / active;
    const SparseRows<T> piece{rows.data() + first, count * (group + 1) / active - first,
                              owned.data,          owned.rows,
                              ghost.data,          h.data};
    kernels.forward(layer, piece, shared, own + group * size);
  }
}

template <class T>
void relate_sparse_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, T* dm,
                            const SparseRelate<T>& relate, const IdentityBlock<T>& identity,
                            const IdentityGradient<T>& d_identity, Index first, NodeView<const T> delta,
                            NodeView<const T> z, std::span<T> workspace) {
  const SparseKernels<T>& kernels = kernels_of<SparseKernels, T>(exec.isa);
  const SparseLayer<T> layer = layer_of(relate, identity, delta.cols, delta.channels);
  T* shared = workspace.data();
  T* own = shared + kernels.shared_size(layer);
  const Index size = kernels.group_size(layer);
  kernels.prepare(layer, shared);
  const Index active = active_groups(z.rows);
#pragma omp parallel for num_threads(exec.threads) schedule(dynamic, 1) if (exec.threads > 1)
  for (Index group = 0; group < active; ++group) {
    const Index begin = z.rows * group / active;
    const SparseColumns<T> piece{first,   begin, z.rows * (group + 1) / active - begin, delta.data, z.data,
                                 dz.data, dm};
    kernels.clear(layer, own + group * size);
    kernels.backward(layer, piece, shared, own + group * size);
  }
  for (Index group = 0; group < active; ++group)
    kernels.collect(layer, own + group * size, da.data, da.stride, d_identity.da.data, d_identity.da.stride,
                    d_identity.dbias);
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, relate_sparse_workspace, relate_sparse_forward, relate_sparse_backward)
