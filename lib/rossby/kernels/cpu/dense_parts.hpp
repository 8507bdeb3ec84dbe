#pragma once

#include <algorithm>
#include <type_traits>

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/relate_dense.hpp"

// Shared by the own and the BLAS products of dense relations.

namespace rossby::cpu {

/// Places of the parts of the workspace: upper bounds that hold for every instruction set.
template <class T>
struct DenseWorkspace {
  static constexpr Index most_lanes = 64 / sizeof(T);
  static constexpr Index most_strip = 3 * most_lanes;

  Index z, u, g, context, scratch, size;

  DenseWorkspace(const DenseRelate<T>& relate, Index cols, Index channels) {
    const Index d = relate.a.cols / std::max(relate.relations, 1);
    const Index width = cols * d;
    const Index r = relate.relations;
    Index next = 0;
    const auto part = [&](Index values) {
      const Index at = next;
      next += (values + most_lanes - 1) / most_lanes * most_lanes;
      return at;
    };
    z = part(std::max((relate.columns + most_strip) * width, relate.columns * (width + most_lanes)));
    u = part((relate.columns + most_strip) * width);
    g = part((r * relate.rows + dense_row_padding) * width);
    context = part(r * relate.rows * width);
    scratch = part(linear_scratch_size(relate.rows * cols, channels, d));
    size = next;
  }
};

/// One relation's context as a dense layer's input (rows·B, d), its weight and node data in the same form.
template <class T>
MatrixView<T> as_layer(NodeView<T> v) {
  return {v.data, v.rows * v.cols, v.channels};
}
template <class T>
MatrixView<const T> relation_weight(const DenseRelate<T>& relate, int k) {
  const Index d = relate.a.cols / relate.relations;
  return {relate.a.data + k * d, relate.a.rows, d, relate.a.stride};
}
template <class T>
MatrixView<T> relation_rows(T* data, const DenseRelate<T>& relate, int k, Index cols) {
  const Index d = relate.a.cols / relate.relations;
  return {data + k * relate.rows * cols * d, relate.rows * cols, d};
}

/// The stored array of W.
template <class S>
const S* stored_weight(const DenseRelate<Arithmetic<S>>& relate) {
  if constexpr (std::is_same_v<S, Bf16>)
    return relate.bf16;
  else
    return relate.weight;
}

/// Arguments of the sink of one block of columns.
template <class S>
struct DenseSinkArguments {
  using T = Arithmetic<S>;
  DenseSink sink = DenseSink::none;
  AdamConstants<T> adam{};
  T l1 = 0;

  explicit DenseSinkArguments(const DenseGradient<T>& dm) {
    if (dm.buffer) sink = DenseSink::accumulate;
    if (!dm.update) return;
    const AdamStep& step = dm.update->step;
    sink = dm.update->m || dm.update->bf16.m ? DenseSink::adam_moment : DenseSink::adam;
    adam = adam_constants<T>(step, dm.update->decoupled);
    l1 = static_cast<T>(dm.update->l1);
  }

  /// The block of relation k at row `row` and column `first`, to the last row.
  [[nodiscard]] DenseBackward<S> block(const DenseRelate<T>& relate, const DenseGradient<T>& dm, int k,
                                       Index row, Index first, Index columns) const {
    const Index at = (k * relate.rows + row) * relate.columns + first;
    DenseBackward<S> b{};
    // Only an update writes to this array, and then the array is the update's own.
    b.weight = const_cast<S*>(stored_weight<S>(relate)) + at;
    b.pattern = relate.pattern ? relate.pattern + at : nullptr;
    b.dm = dm.buffer ? dm.buffer + at : nullptr;
    if (dm.update) {
      if constexpr (std::is_same_v<S, Bf16>) {
        b.m = dm.update->bf16.m ? dm.update->bf16.m + at : nullptr;
        b.v = dm.update->bf16.v + at;
        b.rounding = dm.update->bf16.rounding;
        b.rounding.first_row += row;
      } else {
        b.m = dm.update->m ? dm.update->m + at : nullptr;
        b.v = dm.update->v + at;
      }
    }
    b.adam = dm.update ? &adam : nullptr;
    b.stride = relate.columns;
    b.rows = relate.rows - row;
    b.columns = columns;
    b.clamped = relate.clamped;
    b.l1 = l1;
    b.relation = k;
    b.first_column = first;
    return b;
  }
};

/// context (r, rows, width) = W z with BLAS; returns Σ effective weights.
template <class S, class T = Arithmetic<S>>
double blas_contexts(const Exec& exec, T* context, const DenseRelate<T>& relate, NodeView<const T> z);

/// dz += Σ_k W_kᵀ g_k; the gradients g_k zᵀ go to their sink; g (r, rows, width). Returns Σ gradient².
template <class S, class T = Arithmetic<S>>
double blas_columns(const Exec& exec, NodeView<T> dz, const DenseGradient<T>& dm,
                    const DenseRelate<T>& relate, const T* g, NodeView<const T> z);

}  // namespace rossby::cpu
