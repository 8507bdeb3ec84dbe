#include "rossby/kernels/relate_dense.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/relate_dense_backends.hpp"

namespace rossby {
namespace {

template <class T>
void check(NodeView<const T> h, const DenseRelate<T>& relate, NodeView<const T> z) {
  require(h.packed() && z.packed(), "relate: node data must be packed");
  require(h.cols == z.cols || z.rows == 0, "relate: input and output must have the same columns");
  require(relate.relations > 0 && relate.a.cols % relate.relations == 0,
          "relate: weight columns must be relations x channels");
  require(relate.a.rows == h.channels, "relate: weight rows must be the output channels");
  require(z.rows == 0 || relate.a.cols / relate.relations == z.channels,
          "relate: weight block width must be the input channels");
  require(h.rows == relate.rows && z.rows == relate.columns, "relate: dense block and node data must match");
  require(!relate.bf16 || (std::is_same_v<T, float> && !relate.weight),
          "relate: bf16 takes the place of floats");
}

/// Σ effective weights, for products that have no columns to go over W with.
template <class T>
double weight_sum(const DenseRelate<T>& relate) {
  double sum = 0;
  for (Index e = 0; e < relate.relations * relate.rows * relate.columns; ++e) {
    if (relate.pattern && relate.pattern[e] == 0) continue;
    const auto weight = static_cast<double>(relate.stored(e));
    sum += relate.clamped ? std::clamp(weight, 0.0, 1.0) : weight;
  }
  return sum;
}

/// An update is applied once, to the arrays that the relation reads.
template <class T>
void begin_update(DenseUpdate<T>& update, const DenseRelate<T>& relate) {
  require(!update.applied, "relate: an update is applied once a step");
  update.applied = true;
  if (relate.rows == 0 || relate.columns == 0) return;
  require(update.theta == relate.weight && update.bf16.theta == relate.bf16 &&
              (relate.bf16 ? update.bf16.v != nullptr : update.v != nullptr),
          "relate: an update is of the relation's own weight");
  require(update.m || update.bf16.m || update.step.beta1 == 0, "relate: beta1 needs a first moment");
}

}  // namespace

std::string_view to_string(DenseProduct product) {
  return product == DenseProduct::own ? "own" : "blas";
}

template <class T>
Index relate_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index cols, Index channels) {
  if (is_of_host(exec)) return cpu::relate_dense_workspace(exec, relate, cols, channels);
  ROSSBY_DISPATCH(relate_dense_workspace, exec, relate, cols, channels);
}

template <class T>
void relate_dense_forward(const Exec& exec, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                          std::span<T> workspace) {
  check<T>(h, relate, z);
  if (relate.weight_sum) *relate.weight_sum = 0;
  if (!on_device(exec.backend) && (h.size() == 0 || z.size() == 0)) {
    if (relate.weight_sum) *relate.weight_sum = weight_sum(relate);
    return;
  }
  require(std::ssize(workspace) >= relate_dense_workspace(exec, relate, h.cols, h.channels),
          "relate: workspace too small");
  ROSSBY_DISPATCH(relate_dense_forward, exec, h, relate, z, workspace);
}

template <class T>
void relate_dense_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, DenseGradient<T> dm,
                           const DenseRelate<T>& relate, NodeView<const T> delta, NodeView<const T> z,
                           std::span<T> workspace) {
  check<T>(delta, relate, z);
  require(!dz.data || (dz.packed() && dz.rows == z.rows && dz.width() == z.width()),
          "relate: dz must match z");
  require(!dm.buffer || !dm.update, "relate: a gradient has one sink");
  if (dm.update) begin_update(*dm.update, relate);
  if (delta.rows == 0 || z.rows == 0) return;
  require(std::ssize(workspace) >= relate_dense_workspace(exec, relate, delta.cols, delta.channels),
          "relate: workspace too small");
  ROSSBY_DISPATCH(relate_dense_backward, exec, dz, da, dm, relate, delta, z, workspace);
}

template <class T>
void relate_dense_update(const Exec& exec, DenseUpdate<T>& update, const DenseRelate<T>& relate,
                         const T* gradient) {
  begin_update(update, relate);
  if (relate.rows == 0 || relate.columns == 0) return;
  ROSSBY_DISPATCH(relate_dense_update, exec, update, relate, gradient);
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template Index relate_dense_workspace(const Exec&, const DenseRelate<T>&, Index, Index);               \
  template void relate_dense_forward(const Exec&, NodeView<T>, const DenseRelate<T>&, NodeView<const T>, \
                                     std::span<T>);                                                      \
  template void relate_dense_backward(const Exec&, NodeView<T>, MatrixView<T>, DenseGradient<T>,         \
                                      const DenseRelate<T>&, NodeView<const T>, NodeView<const T>,       \
                                      std::span<T>);                                                     \
  template void relate_dense_update(const Exec&, DenseUpdate<T>&, const DenseRelate<T>&, const T*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby
