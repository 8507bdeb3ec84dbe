#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "rossby/base/bf16.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/tensor/view.hpp"

// Contract of the dense relation kernels: h += Σ_k (W_k z) A_kᵀ and its adjoint, with W_k = clamp(M_k, 0, 1)
// if clamped. Shapes as in relate.hpp. Backward reads W once: with g_k = δ A_k, dz += Σ_k W_kᵀ g_k and the
// gradient is dM_k = g_k zᵀ. The gradient goes to its sink tile by tile: a buffer, or directly Adam's update,
// so that no (rows, columns) gradient ever exists. A step then moves W 3 times and v 2 times through memory
// (and m 2 times if beta1 ≠ 0). Results do not depend on the number of threads.
//
// If T is float, M and its moments may be stored in bf16: half the bytes, all arithmetic in float. Updates
// are rounded stochastically. Rounding to nearest would lose every update of less than half a unit in the
// last place, a 512th of the value or less: v of beta2 = 0.999 would never decay.

namespace rossby {

/// The products in use: the library's own register blocks, or BLAS on tiles of clamped weights.
enum class DenseProduct { own, blas };
[[nodiscard]] constexpr std::string_view to_string(DenseProduct product) {
  return product == DenseProduct::own ? "own" : "blas";
}

/// Dense relations of one term.
template <class T>
struct DenseRelate {
  Index rows = 0;
  Index columns = 0;
  int relations = 1;
  const T* weight = nullptr;              // (r, rows, columns)
  const std::uint8_t* pattern = nullptr;  // (r, rows, columns): 0 = no relation; null: all
  bool clamped = false;
  MatrixView<const T> a;         // (w, r·d)
  T* context = nullptr;          // (r, rows, B·d): forward stores W_k z, backward takes dA from it;
                                 // null: a backward that wants dA reads W once more
  double* weight_sum = nullptr;  // forward sets it to Σ effective weights, if given
  DenseProduct product = DenseProduct::own;
  const Bf16* bf16 = nullptr;  // in place of `weight`

  /// The stored value of entry e of (r, rows, columns).
  [[nodiscard]] T stored(Index e) const {
    if constexpr (std::is_same_v<T, float>)
      if (bf16) return widen(bf16[e]);
    return weight[e];
  }
};

/// Arrays of an update in bf16, in place of DenseUpdate's theta, m and v.
struct Bf16Arrays {
  Bf16* theta = nullptr;
  Bf16* m = nullptr;
  Bf16* v = nullptr;
  StochasticRounding rounding;
};

/// A weight that backward itself updates: the gradient never exists as an array.
template <class T>
struct DenseUpdate {
  T* theta = nullptr;            // M, the array that DenseRelate::weight reads
  T* m = nullptr;                // null: beta1 = 0
  T* v = nullptr;                // both of M's size
  AdamStep step;                 // of this step
  bool decoupled = false;        // AdamW
  double l1 = 0;                 // adds l1 · (gradient of Σ clamp(M)) to the gradient
  double squares = 0;            // out, += Σ gradient² before `step.gradient_scale`
  DenseUpdate* whole = nullptr;  // if this is a part: the whole update, which gets the squares
  Bf16Arrays bf16;               // in place of theta, m and v if DenseRelate::bf16 is set
  // Progress of this step, for all that share the update:
  bool recorded = false;  // a forward has requested it
  double weight_sum = 0;  // that forward's Σ clamp(M)
  bool applied = false;   // backward has updated M

  /// Target of Σ gradient². It must stay in place until the step has ended; a part may not live that long.
  [[nodiscard]] double* squares_to() { return whole ? &whole->squares : &squares; }
};

/// Target of dM: none, a buffer (r, rows, columns) that is added to, or the update.
template <class T>
struct DenseGradient {
  T* buffer = nullptr;
  DenseUpdate<T>* update = nullptr;
  DenseGradient() = default;
  DenseGradient(std::nullptr_t) {}
  DenseGradient(T* b) : buffer(b) {}
  DenseGradient(DenseUpdate<T>* u) : update(u) {}
};

/// Scratch values that both kernels need for z (columns, B, d) and h (rows, B, w).
template <class T>
Index relate_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index cols, Index channels) {
  if (is_of_host(exec)) return run_on_host<relate_dense_workspace<T>>(exec, relate, cols, channels);
  return dispatch<relate_dense_workspace<T>>(exec, relate, cols, channels);
}

/// Throws BugError unless node data and the weights of a layer have matching shapes.
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
void check_layer(NodeView<const T> h, const DenseRelate<T>& relate, NodeView<const T> z) {
  check_layer<T>(h, relate.a, relate.relations, z);
  require(h.rows == relate.rows && z.rows == relate.columns, "relate: dense block and node data must match");
  require(!relate.bf16 || (std::is_same_v<T, float> && !relate.weight),
          "relate: bf16 takes the place of floats");
}

/// Σ effective weights, for products without columns, which do not read W.
template <class T>
double sum_of_weights(const DenseRelate<T>& relate) {
  double sum = 0;
  for (Index e = 0; e < relate.relations * relate.rows * relate.columns; ++e) {
    if (relate.pattern && relate.pattern[e] == 0) continue;
    const auto weight = static_cast<double>(relate.stored(e));
    sum += relate.clamped ? std::clamp(weight, 0.0, 1.0) : weight;
  }
  return sum;
}

/// Throws BugError unless the update is still to be applied and updates the arrays that the relation reads.
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

/// h += Σ_k (W_k z) A_kᵀ; z (columns, B, d) packed.
template <class T>
void relate_dense_forward(const Exec& exec, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                          std::span<T> workspace) {
  check_layer<T>(h, relate, z);
  if (relate.weight_sum) *relate.weight_sum = 0;
  if (!on_device(exec.backend) && (h.size() == 0 || z.size() == 0)) {
    if (relate.weight_sum) *relate.weight_sum = sum_of_weights(relate);
    return;
  }
  require(std::ssize(workspace) >= relate_dense_workspace(exec, relate, h.cols, h.channels),
          "relate: workspace too small");
  dispatch<relate_dense_forward<T>>(exec, h, relate, z, workspace);
}

/// dz (columns, B, d) += and da +=, each null if not wanted; dM goes to its sink. All three use W before the
/// update. Entries without a relation get no gradient; if clamped, neither do entries that are not strictly
/// inside (0, 1).
template <class T>
void relate_dense_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, DenseGradient<T> dm,
                           const DenseRelate<T>& relate, NodeView<const T> delta, NodeView<const T> z,
                           std::span<T> workspace) {
  check_layer<T>(delta, relate, z);
  require(!dz.data || (dz.packed() && dz.rows == z.rows && dz.width() == z.width()),
          "relate: dz must match z");
  require(!dm.buffer || !dm.update, "relate: a gradient has one sink");
  if (dm.update) begin_update(*dm.update, relate);
  if (delta.rows == 0 || z.rows == 0) return;
  require(std::ssize(workspace) >= relate_dense_workspace(exec, relate, delta.cols, delta.channels),
          "relate: workspace too small");
  dispatch<relate_dense_backward<T>>(exec, dz, da, dm, relate, delta, z, workspace);
}

/// Applies the update with a complete dM: `gradient` (r, rows, columns) as backward adds it to a buffer,
/// without l1. The update's arrays are the relation's.
template <class T>
void relate_dense_update(const Exec& exec, DenseUpdate<T>& update, const DenseRelate<T>& relate,
                         const T* gradient) {
  begin_update(update, relate);
  if (relate.rows == 0 || relate.columns == 0) return;
  dispatch<relate_dense_update<T>>(exec, update, relate, gradient);
}

/// Applies pending updates with gradient zero to (relations, rows, columns) values and moments in bf16:
/// `steps` one after the other in float, as adam_replay, then one rounding of the changed values. m is null
/// if beta1 = 0 in all steps.
void adam_replay_bf16(const Exec& exec, const Bf16Arrays& arrays, Index relations, Index rows, Index columns,
                      std::span<const AdamConstants<float>> steps);

}  // namespace rossby
