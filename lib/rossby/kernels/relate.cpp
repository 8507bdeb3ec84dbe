#include "rossby/kernels/relate.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/relate_backends.hpp"

namespace rossby {
namespace {

template <class T>
void check_layer(NodeView<const T> h, MatrixView<const T> a, int relations, NodeView<const T> z) {
  require(h.packed() && z.packed(), "relate: node data must be packed");
  require(h.cols == z.cols || z.rows == 0, "relate: input and output must have the same columns");
  require(relations > 0 && a.cols % relations == 0, "relate: weight columns must be relations x channels");
  require(a.rows == h.channels, "relate: weight rows must be the output channels");
  require(z.rows == 0 || a.cols / relations == z.channels,
          "relate: weight block width must be the input channels");
}

template <class T>
void check_identity(const IdentityBlock<T>& identity, const SparseRelate<T>& relate) {
  require(!identity.a.data || (identity.a.rows == relate.a.rows &&
                               identity.a.cols * relate.block->relations == relate.a.cols),
          "relate: the identity's block must be as wide as each relation's");
  require(identity.a.data || !identity.bias, "relate: a bias goes with an identity block");
}

}  // namespace

template <class T>
Index relate_sparse_workspace(const Exec& exec, const SparseRelate<T>& relate, Index cols, Index channels) {
  if (is_of_host(exec)) return cpu::relate_sparse_workspace(exec, relate, cols, channels);
  ROSSBY_DISPATCH(relate_sparse_workspace, exec, relate, cols, channels);
}

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
  ROSSBY_DISPATCH(relate_sparse_forward, exec, h, relate, identity, rows, owned, ghost, workspace);
}

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
  ROSSBY_DISPATCH(relate_sparse_backward, exec, dz, da, dm, relate, identity, d_identity, first, delta, z,
                  workspace);
}

#define ROSSBY_INSTANTIATE(T)                                                                               \
  template Index relate_sparse_workspace(const Exec&, const SparseRelate<T>&, Index, Index);                \
  template void relate_sparse_forward(const Exec&, NodeView<T>, const SparseRelate<T>&,                     \
                                      const IdentityBlock<T>&, std::span<const LocalColumn>,                \
                                      NodeView<const T>, NodeView<const T>, std::span<T>);                  \
  template void relate_sparse_backward(const Exec&, NodeView<T>, MatrixView<T>, T*, const SparseRelate<T>&, \
                                       const IdentityBlock<T>&, const IdentityGradient<T>&, Index,          \
                                       NodeView<const T>, NodeView<const T>, std::span<T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby
