#pragma once

#include "rossby/kernels/cpu/simd/shuffle.hpp"
#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/cpu/simd/sparse_weight.hpp"

// Sparse relations of layers with one channel in and out (d = w = 1): a relation is one factor, so that an
// entry is one multiply-add over the columns B, and its gradient one inner product over them.

namespace rossby::cpu::ROSSBY_ISA {

/// ⟨x, y⟩ in vector sums, then the rest in order.
template <class T>
ROSSBY_INLINE T inner_product(Index width, const T* x, const T* y) {
  using V = Vec<T, lanes<T>>;
  Index q = 0;
  V sum{};
  for (; q + lanes<T> <= width; q += lanes<T>) sum += load<V>(x + q) * load<V>(y + q);
  T total = sum_of_lanes<T, lanes<T>>(sum);
  for (; q < width; ++q) total += x[q] * y[q];
  return total;
}

/// Columns [b, b + C·count) of one row.
template <int C, int count, class T>
ROSSBY_INLINE void forward_row(const SparseLayer<T>& layer, const SparseRows<T>& rows, const T* ghost,
                               Index i, Index b) {
  using V = Vec<T, C>;
  V acc[count];
  T* h = rows.h + i * layer.cols + b;
  if (layer.self) {
    const T* own = rows.owned + i * layer.cols + b;
    const V start = splat<V>(layer.bias ? *layer.bias : T(0));
    const V factor = splat<V>(*layer.self);
    for (int c = 0; c < count; ++c) acc[c] = start + factor * load<V>(own + c * C);
  } else {
    for (int c = 0; c < count; ++c) acc[c] = load<V>(h + c * C);
  }
  const Index end = layer.ptr[(i + 1) * layer.relations];
  for (Index e = layer.ptr[i * layer.relations]; e < end; ++e) {
    const Index column = layer.column[e];
    const T* x = (column < rows.owned_rows ? rows.owned : ghost) + column * layer.cols + b;
    const V factor = splat<V>(layer.a[layer.relation[e]] * effective_weight(layer.weight[e], layer.clamped));
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) acc[c] += factor * load<V>(x + c * C);
  }
  for (int c = 0; c < count; ++c) store(h + c * C, acc[c]);
}

/// Calls f<C, count>(b) over pieces of the columns: C lanes, `count` registers.
template <class T, class F>
ROSSBY_INLINE void each_piece(Index cols, const F& f) {
  constexpr int L = lanes<T>;
  Index b = 0;
  for (; b + 4 * L <= cols; b += 4 * L) f.template operator()<L, 4>(b);
  for (; b + L <= cols; b += L) f.template operator()<L, 1>(b);
  if constexpr (L > 8)
    if (b + 8 <= cols) {
      f.template operator()<8, 1>(b);
      b += 8;
    }
  if constexpr (L > 4)
    if (b + 4 <= cols) {
      f.template operator()<4, 1>(b);
      b += 4;
    }
  if constexpr (L > 2)
    if (b + 2 <= cols) {
      f.template operator()<2, 1>(b);
      b += 2;
    }
  if (b < cols) f.template operator()<1, 1>(b);
}

template <class T>
ROSSBY_INLINE void forward_one(const SparseLayer<T>& layer, const SparseRows<T>& rows) {
  const T* ghost = rows.ghost ? rows.ghost - rows.owned_rows * layer.cols : nullptr;
  each_piece<T>(layer.cols, [&]<int C, int count>(Index b) {
    for (Index q = 0; q < rows.count; ++q) forward_row<C, count>(layer, rows, ghost, Index{rows.rows[q]}, b);
  });
}

/// Sums of the lanes of eight registers.
template <class T, int C>
ROSSBY_INLINE void eight_sums(Vec<T, C>* v, T* sums) {
  if constexpr (C == 1) {
    for (int q = 0; q < 8; ++q) sums[q] = v[q][0];
  } else if constexpr (C > 8) {
    Vec<T, 8> half[8];
    for (int q = 0; q < 8; ++q) {
      Vec<T, 8> low, high;
      __builtin_memcpy(&low, &v[q], sizeof(low));
      __builtin_memcpy(&high, reinterpret_cast<const char*>(&v[q]) + sizeof(low), sizeof(high));
      half[q] = low + high;
    }
    store(sums, fold<T, 8, 8>(half));
  } else {
#pragma GCC unroll 8
    for (int q = 0; q < 8; q += C) store(sums + q, fold<T, C, C>(v + q));
  }
}

/// Columns [b, b + C·count) of relation column j: dz, and the products that dA and dM are made of.
template <int C, int count, class T>
ROSSBY_INLINE void backward_column(const SparseLayer<T>& layer, const SparseColumns<T>& columns, Index row,
                                   Index b, T* da) {
  using V = Vec<T, C>;
  const Index B = layer.cols;
  const Index j = columns.first + row;
  V z[count], acc[count];
  for (int c = 0; c < count; ++c) {
    z[c] = load<V>(columns.z + row * B + b + c * C);
    acc[c] = columns.dz ? load<V>(columns.dz + row * B + b + c * C) : V{};
  }
  if (layer.self) {
    V product{}, bias{};
    for (int c = 0; c < count; ++c) {
      const V delta = load<V>(columns.delta + j * B + b + c * C);
      acc[c] += *layer.self * delta;
      product += z[c] * delta;
      bias += delta;
    }
    da[layer.relations] += sum_of_lanes<T, C>(product);
    da[layer.relations + 1] += sum_of_lanes<T, C>(bias);
  }
  const Index end = layer.t_ptr[(j + 1) * layer.relations];
  for (Index s = layer.t_ptr[j * layer.relations]; s < end; s += 8) {
    const int entries = end - s < 8 ? static_cast<int>(end - s) : 8;
    V product[8];
    T effective[8];
    for (int q = 0; q < entries; ++q) {
      const T* delta = columns.delta + Index{layer.t_row[s + q]} * B + b;
      effective[q] = effective_weight(layer.weight[layer.t_entry[s + q]], layer.clamped);
      const V factor = splat<V>(layer.a[layer.t_relation[s + q]] * effective[q]);
      V sum{};
#pragma GCC unroll 4
      for (int c = 0; c < count; ++c) {
        const V g = load<V>(delta + c * C);
        acc[c] += factor * g;
        sum += z[c] * g;
      }
      product[q] = sum;
    }
    for (int q = entries; q < 8; ++q) product[q] = V{};
    T p[8];
    eight_sums<T, C>(product, p);
    for (int q = 0; q < entries; ++q) {
      const Index k = layer.t_relation[s + q];
      da[k] += effective[q] * p[q];
      const Index e = layer.t_entry[s + q];
      if (columns.dm && weight_learns(layer.weight[e], layer.clamped)) columns.dm[e] += layer.a[k] * p[q];
    }
  }
  if (columns.dz)
    for (int c = 0; c < count; ++c) store(columns.dz + row * B + b + c * C, acc[c]);
}

/// `da` holds relations + 2 sums: of every relation, the identity, the bias.
template <class T>
ROSSBY_INLINE void backward_one(const SparseLayer<T>& layer, const SparseColumns<T>& columns, T* da) {
  each_piece<T>(layer.cols, [&]<int C, int count>(Index b) {
    for (Index q = 0; q < columns.count; ++q)
      backward_column<C, count>(layer, columns, columns.begin + q, b, da);
  });
}

}  // namespace rossby::cpu::ROSSBY_ISA
