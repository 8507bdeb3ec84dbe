#pragma once

#include "rossby/kernels/cpu/simd/narrow.hpp"
#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/cpu/simd/sparse_weight.hpp"

// Sparse relations with about one entry per list (the directions of a grid) and eight columns or more. Each
// entry's row goes through its relation's weights in place, without a copy. With several entries per list,
// adding them first is faster (sparse.cpp).

namespace rossby::cpu::ROSSBY_ISA {

/// Columns that go through a relation's weights together.
inline constexpr int columns_together = register_bytes == 64 ? 8 : 4;

/// Calls f<N, S, G>() if N·S lanes fill a register and `inner` is G groups of S; otherwise returns false.
template <class T, class F>
inline bool with_full_lanes(const Lanes& by, const F& f) {
// Floats of up to eight inputs: wider layers are faster when added first, and doubles serve parity, not
// speed.
#define ROSSBY_FULL(N, G)                                                                   \
  if constexpr (sizeof(T) == 4 && lanes<T> % N == 0 && G * (lanes<T> / N) <= 8)             \
    if (by.outputs == N && by.inputs == lanes<T> / N && by.groups == G && by.blocks == 1) { \
      f.template operator()<N, lanes<T> / N, G>();                                          \
      return true;                                                                          \
    }
  ROSSBY_FULL(2, 1)
  ROSSBY_FULL(2, 2)
  ROSSBY_FULL(4, 1)
  ROSSBY_FULL(4, 2)
  ROSSBY_FULL(4, 4)
  ROSSBY_FULL(8, 1)
  ROSSBY_FULL(8, 2)
  ROSSBY_FULL(8, 4)
  ROSSBY_FULL(8, 8)
#undef ROSSBY_FULL
  return false;
}

/// acc[m] += x[m] · (weight · A), A packed in G registers.
template <class T, int N, int S, int G>
ROSSBY_INLINE void through(const T* x, T weight, const T* packed, Vec<T, N * S>* acc) {
  constexpr int L = N * S;
  using V = Vec<T, L>;
  V a[G];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) a[g] = load<V>(packed + g * L) * weight;
#pragma GCC unroll 8
  for (int m = 0; m < columns_together; ++m)
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) acc[m] += repeat<T, L, S>(x + (m * G + g) * S) * a[g];
}

template <int N, int S, int G, class T>
inline void forward_direct(const SparseLayer<T>& layer, const SparseRows<T>& rows, const T* packed) {
  constexpr int L = N * S;
  constexpr Index plane = G * L;
  const T* relations = packed + (layer.self ? plane : 0);
  const Index width = layer.cols * layer.d;
  const T* ghost = rows.ghost ? rows.ghost - rows.owned_rows * width : nullptr;
  for (Index q = 0; q < rows.count; ++q) {
    const Index i = rows.rows[q];
    const Index begin = layer.ptr[i * layer.relations];
    const Index end = layer.ptr[(i + 1) * layer.relations];
    T* h = rows.h + i * layer.cols * layer.w;
    const NarrowProduct<T> out{nullptr, 0, 0, 0, nullptr, h, 0, layer.w, layer.bias, !layer.self};
    for (Index b = 0; b < layer.cols; b += columns_together) {
      Vec<T, L> acc[columns_together] = {};
      const Index at = b * layer.d;
      if (layer.self) through<T, N, S, G>(rows.owned + i * width + at, T(1), packed, acc);
      for (Index e = begin; e < end; ++e) {
        const Index c = layer.column[e];
        through<T, N, S, G>((c < rows.owned_rows ? rows.owned : ghost) + c * width + at,
                            effective_weight(layer.weight[e], layer.clamped),
                            relations + layer.relation[e] * plane, acc);
      }
#pragma GCC unroll 8
      for (int m = 0; m < columns_together; m += S)
        if constexpr (S <= columns_together)
          store_rows<T, N, S>(out, 0, b + m, columns_together - m, fold<T, L, S>(acc + m));
        else
          break;
    }
  }
}

/// One list entry of a column: dz's sums, and P = Σ_b δᵀz, from which the gradients of the entry's weight and
/// of its relation's A follow.
template <class T, int N, int S, int G>
ROSSBY_INLINE T entry_backward(const T* delta, T weight, const T* packed, const T* repeated,
                               Vec<T, N * S>* acc, T* sums) {
  constexpr int L = N * S;
  using V = Vec<T, L>;
  V a[G], p[G];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    a[g] = load<V>(packed + g * L) * weight;
    p[g] = V{};
  }
#pragma GCC unroll 8
  for (int m = 0; m < columns_together; ++m) {
    const V z = load<V>(repeated + m * L);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const V x = repeat<T, L, S>(delta + (m * G + g) * S);
      acc[m] += x * a[g];
      p[g] += x * z;
    }
  }
  V dot{};
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    dot += p[g] * load<V>(packed + g * L);
    store(sums + g * L, load<V>(sums + g * L) + weight * p[g]);
  }
  return sum_of_lanes<T, L>(dot);
}

/// `packed` and `sums` have the layout of the product δ → dz; `repeated` is scratch for cols · L values.
template <int N, int S, int G, class T>
inline void backward_direct(const SparseLayer<T>& layer, const SparseColumns<T>& columns, const T* packed,
                            T* sums, T* bias, T* repeated) {
  constexpr int L = N * S;
  constexpr Index plane = G * L;
  const Index self = layer.self ? plane : 0;
  const Index width = layer.cols * layer.w;
  for (Index row = columns.begin; row < columns.begin + columns.count; ++row) {
    const Index j = columns.first + row;
    const T* z = columns.z + row * layer.cols * layer.d;
    repeat_rows<T, N, S>(layer.cols, layer.d, 0, z, repeated);
    const Index begin = layer.t_ptr[j * layer.relations];
    const Index end = layer.t_ptr[(j + 1) * layer.relations];
    T* dz = columns.dz + row * layer.cols * layer.d;
    const NarrowProduct<T> out{nullptr, 0, 0, 0, nullptr, dz, 0, layer.d, nullptr, true};
    if (layer.self)
      for (Index q = 0; q < width; ++q) bias[q] += columns.delta[j * width + q];
    for (Index b = 0; b < layer.cols; b += columns_together) {
      Vec<T, L> acc[columns_together] = {};
      const Index at = b * layer.w;
      if (layer.self)
        entry_backward<T, N, S, G>(columns.delta + j * width + at, T(1), packed, repeated + b * L, acc, sums);
      for (Index s = begin; s < end; ++s) {
        const Index e = layer.t_entry[s];
        const Index k = self + layer.t_relation[s] * plane;
        const T gradient = entry_backward<T, N, S, G>(columns.delta + Index{layer.t_row[s]} * width + at,
                                                      effective_weight(layer.weight[e], layer.clamped),
                                                      packed + k, repeated + b * L, acc, sums + k);
        if (columns.dm) columns.dm[e] += learned_gradient(layer.weight[e], layer.clamped, gradient);
      }
      if (!columns.dz) continue;
#pragma GCC unroll 8
      for (int m = 0; m < columns_together; m += S)
        if constexpr (S <= columns_together)
          store_rows<T, N, S>(out, 0, b + m, columns_together - m, fold<T, L, S>(acc + m));
        else
          break;
    }
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
