#pragma once

#include "rossby/kernels/cpu/simd/shuffle.hpp"
#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/cpu/simd/sparse_weight.hpp"
#include "rossby/kernels/cpu/simd/strip.hpp"

// Sparse relations of layers with one channel in and out (d = w = 1). A relation is one factor, so an entry
// is one multiply-add over the columns B, and its gradient one inner product over them.

namespace rossby::cpu::ROSSBY_ISA {

/// ⟨x, y⟩ in vector sums.
template <class T>
ROSSBY_INLINE T inner_product(Index width, const T* x, const T* y) {
  using V = Vec<T, lanes<T>>;
  Index q = 0;
  V sum{};
  for (; q + lanes<T> <= width; q += lanes<T>) sum += load<V>(x + q) * load<V>(y + q);
  if (q < width) sum += load_first<V>(x + q, width - q) * load_first<V>(y + q, width - q);
  return sum_of_lanes<T, lanes<T>>(sum);
}

/// A strip of the columns of one row, from column b on.
template <int registers, class Last, class T>
ROSSBY_INLINE void forward_row(const Last& part, const SparseLayer<T>& layer, const SparseRows<T>& rows,
                               const T* ghost, Index i, Index b) {
  Strip<T, registers, Last> sum;
  T* h = rows.h + i * layer.cols + b;
  if (layer.self) {
    sum.fill(layer.bias ? *layer.bias : T(0));
    sum.add(part, *layer.self, rows.owned + i * layer.cols + b);
  } else {
    sum.start(part, h, T(1));
  }
  const Index end = layer.ptr[(i + 1) * layer.relations];
  for (Index e = layer.ptr[i * layer.relations]; e < end; ++e) {
    const Index column = layer.column[e];
    const T* x = (column < rows.owned_rows ? rows.owned : ghost) + column * layer.cols + b;
    sum.add(part, layer.a[layer.relation[e]] * effective_weight(layer.weight[e], layer.clamped), x);
  }
  sum.finish(part, h);
}

template <class T>
ROSSBY_INLINE void forward_one(const SparseLayer<T>& layer, const SparseRows<T>& rows) {
  const T* ghost = rows.ghost ? rows.ghost - rows.owned_rows * layer.cols : nullptr;
  each_strip<T, 4>(layer.cols, [&]<int registers, class Last>(const Last& part, Index b) {
    for (Index q = 0; q < rows.count; ++q)
      forward_row<registers>(part, layer, rows, ghost, Index{rows.rows[q]}, b);
  });
}

/// Σ over the lanes of each of eight products of strips, z and another.
template <class T, int registers, class Last>
struct EightProducts {
  static constexpr bool wide = registers > 0;
  // The part after whole registers is added to them if it is as wide.
  static constexpr bool narrow =
      Last::counts && (!wide || sizeof(typename Last::V) != sizeof(Vec<T, lanes<T>>));
  Vec<T, lanes<T>> whole[wide ? 8 : 1];
  typename Last::V last[narrow ? 8 : 1];

  ROSSBY_INLINE void clear(int q) {
    if constexpr (wide) whole[q] = Vec<T, lanes<T>>{};
    if constexpr (narrow) last[q] = typename Last::V{};
  }
  ROSSBY_INLINE void set(int q, const Strip<T, registers, Last>& x, const Strip<T, registers, Last>& y) {
    clear(q);
#pragma GCC unroll 4
    for (int v = 0; v < registers; ++v) whole[q] += x.whole[v] * y.whole[v];
    if constexpr (narrow)
      last[q] = x.last * y.last;
    else if constexpr (Last::counts)
      whole[q] += x.last * y.last;
  }
  ROSSBY_INLINE void sums(T* to) {
    if constexpr (wide) eight_sums<T, lanes<T>>(whole, to);
    if constexpr (narrow) {
      T more[8];
      eight_sums<T, static_cast<int>(sizeof(typename Last::V) / sizeof(T))>(last, wide ? more : to);
      if constexpr (wide)
        for (int q = 0; q < 8; ++q) to[q] += more[q];
    }
  }
};

/// A strip of the columns, from b on, of relation column j: dz, and the products from which dA and dM follow.
template <int registers, class Last, class T>
ROSSBY_INLINE void backward_column(const Last& part, const SparseLayer<T>& layer,
                                   const SparseColumns<T>& columns, Index row, Index b, T* da) {
  using Values = Strip<T, registers, Last>;
  const Index B = layer.cols;
  const Index j = columns.first + row;
  Values z, sum, delta;
  z.start(part, columns.z + row * B + b, T(1));
  sum.start(part, columns.dz ? columns.dz + row * B + b : nullptr, T(1));
  if (layer.self) {
    EightProducts<T, registers, Last> own;
    delta.start(part, columns.delta + j * B + b, T(1));
    sum.add(part, *layer.self, columns.delta + j * B + b);
    own.set(0, z, delta);
    Values ones;
    ones.fill(T(1));
    own.set(1, ones, delta);
    for (int q = 2; q < 8; ++q) own.clear(q);
    T p[8];
    own.sums(p);
    da[layer.relations] += p[0];
    da[layer.relations + 1] += p[1];
  }
  const Index end = layer.t_ptr[(j + 1) * layer.relations];
  for (Index s = layer.t_ptr[j * layer.relations]; s < end; s += 8) {
    const int entries = end - s < 8 ? static_cast<int>(end - s) : 8;
    EightProducts<T, registers, Last> products;
    T effective[8];
    for (int q = 0; q < entries; ++q) {
      const T* x = columns.delta + Index{layer.t_row[s + q]} * B + b;
      effective[q] = effective_weight(layer.weight[layer.t_entry[s + q]], layer.clamped);
      delta.start(part, x, T(1));
      sum.add(part, layer.a[layer.t_relation[s + q]] * effective[q], x);
      products.set(q, z, delta);
    }
    for (int q = entries; q < 8; ++q) products.clear(q);
    T p[8];
    products.sums(p);
    for (int q = 0; q < entries; ++q) {
      const Index k = layer.t_relation[s + q];
      da[k] += effective[q] * p[q];
      const Index e = layer.t_entry[s + q];
      if (columns.dm) columns.dm[e] += learned_gradient(layer.weight[e], layer.clamped, layer.a[k] * p[q]);
    }
  }
  if (columns.dz) sum.finish(part, columns.dz + row * B + b);
}

/// `da` holds relations + 2 sums: of every relation, the identity and the bias.
template <class T>
ROSSBY_INLINE void backward_one(const SparseLayer<T>& layer, const SparseColumns<T>& columns, T* da) {
  const auto strip = [&]<int registers, class Last>(const Last& part, Index b) {
    for (Index q = 0; q < columns.count; ++q)
      backward_column<registers>(part, layer, columns, columns.begin + q, b, da);
  };
  if (layer.cols == 1)  // nothing to add up
    strip.template operator()<0>(ShortPart<T, 1>{}, 0);
  else
    each_strip<T, 4>(layer.cols, strip);
}

}  // namespace rossby::cpu::ROSSBY_ISA
