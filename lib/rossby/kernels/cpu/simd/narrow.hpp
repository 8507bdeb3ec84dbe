#pragma once

#include "rossby/kernels/cpu/simd/shuffle.hpp"

// Products whose inner and outer widths are those of a layer (1…64 channels), over many rows. A register of L
// lanes holds N outputs times S neighbouring inputs, so narrow layers fill it too. x comes in planes, one per
// relation:
//
//     y (m, n) = Σ_planes x_k (m, d) · A_k (d, n)        and its adjoint in A_k: A_k += x_kᵀ · y
//
// Packed A_k: for each block of N outputs, plane and group of S inputs, L values: lane o·S + j is A_k[f +
// j][o].

namespace rossby::cpu::ROSSBY_ISA {

/// How a product with `inner` inputs and `outer` outputs fills a register.
struct Lanes {
  int outputs;   // N, a power of two
  int inputs;    // S, a power of two that divides `inner`
  Index groups;  // of S inputs
  Index blocks;  // of N outputs
};

template <class T>
ROSSBY_INLINE Lanes lanes_for(Index inner, Index outer) {
  int n = 1;
  while (n < outer && n < lanes<T>) n *= 2;
  // Full registers, pairs of pairs, or one input at a time: each further variant costs compile time.
  const int full = lanes<T> / n;
  const int s = inner % full == 0 ? full : n == 2 && inner % 2 == 0 ? 2 : 1;
  return {n, s, inner / s, (outer + n - 1) / n};
}

/// Packs A_k = a[k·plane + f·input_stride + o·output_stride] for all planes.
template <class T>
inline void pack_weights(const Lanes& by, Index planes, Index outer, const T* a, Index plane,
                         Index input_stride, Index output_stride, T* packed) {
  for (Index block = 0; block < by.blocks; ++block)
    for (Index k = 0; k < planes; ++k)
      for (Index g = 0; g < by.groups; ++g)
        for (int o = 0; o < by.outputs; ++o)
          for (int j = 0; j < by.inputs; ++j) {
            const Index out = block * by.outputs + o;
            *packed++ =
                out < outer ? a[k * plane + (g * by.inputs + j) * input_stride + out * output_stride] : T(0);
          }
}

/// Values that pack_weights writes.
ROSSBY_INLINE Index packed_size(const Lanes& by, Index planes) {
  return by.blocks * planes * by.groups * by.outputs * by.inputs;
}

/// Operands of a product.
template <class T>
struct NarrowProduct {
  const T* x;  // plane k, row m, input f at x[k·x_plane + m·inner + f]
  Index x_plane;
  Index planes;
  Index inner;
  const T* packed;
  T* y;  // (rows, outer), packed
  Index rows;
  Index outer;
  const T* start;      // (outer): y starts from it; null: from zero
  bool add;            // y += instead
  Index y_stride = 0;  // between rows of y; 0: packed

  [[nodiscard]] ROSSBY_INLINE Index stride() const { return y_stride > 0 ? y_stride : outer; }
};

/// Stores `count` rows of the first `width` of N sums each.
template <int N, class T>
void store_some(const NarrowProduct<T>& p, Index first, Index row, Index count, Index width, const T* sums);

/// Stores S rows of N sums that a register holds: rows row … row + S − 1 of y, of which `valid` exist.
template <class T, int N, int S>
ROSSBY_INLINE void store_rows(const NarrowProduct<T>& p, Index first, Index row, Index valid,
                              Vec<T, N * S> sums) {
  constexpr int L = N * S;
  using V = Vec<T, L>;
  const bool whole_rows = p.stride() == N || (S == 1 && p.outer - first >= N);
  if (whole_rows && valid >= S) {
    T* to = p.y + row * p.stride() + first;
    if (p.add)
      sums += load<V>(to);
    else if (p.start)
      sums += repeat<T, L, N>(p.start + first);
    store(to, sums);
    return;
  }
  T rows[L];
  store(rows, sums);
  if (p.add && p.outer - first >= N && valid >= S) {  // the last outputs of a wide layer
    for (int s = 0; s < S; ++s) {
      T* to = p.y + (row + s) * p.stride() + first;
      store(to, load<Vec<T, N>>(to) + load<Vec<T, N>>(rows + s * N));
    }
    return;
  }
  store_some<N>(p, first, row, valid < S ? valid : S, p.outer - first < N ? p.outer - first : N, rows);
}

/// y = x · A, as described by NarrowProduct.
template <class T>
void multiply(const Lanes& by, const NarrowProduct<T>& p);

/// Partial sums of the adjoint A_k (outer, inner) += Σ_m u_k[m, outer]ᵀ · z[m, inner]: packed as weights with
/// `inner` outputs and `outer` inputs.
template <class T>
struct NarrowAdjoint {
  const T* u;  // plane k, row m at u[k·u_plane + m·outer]
  Index u_plane;
  Index planes;
  Index outer;
  const T* z;  // (rows, inner), packed
  Index rows;
  Index inner;
  T* repeated;  // scratch, rows · L
  T* sums;      // packed_size(lanes_for(outer, inner), planes)
};

/// Adds to the sums of NarrowAdjoint.
template <class T>
void adjoint(const Lanes& by, const NarrowAdjoint<T>& p);

/// Rows of z (m, inner) as the adjoint reads them: lane f·S + j is z[m][first + f]. Lanes beyond the row hold
/// the memory that follows, if any; their sums are never read.
template <class T, int N, int S>
ROSSBY_INLINE void repeat_rows(Index rows, Index inner, Index first, const T* z, T* repeated) {
  constexpr int L = N * S;
  Index m = 0;
  for (; m * inner + first + N <= rows * inner; ++m)
    store(repeated + m * L, stretch<T, L, S>(z + m * inner + first));
  for (; m < rows; ++m)
    for (int f = 0; f < N; ++f)
      for (int j = 0; j < S; ++j)
        repeated[m * L + f * S + j] = first + f < inner ? z[m * inner + first + f] : T(0);
}

/// a[k·plane + f·input_stride + o·output_stride] += packed, the inverse of pack_weights.
template <class T>
inline void unpack_add(const Lanes& by, Index planes, Index outer, const T* packed, Index plane,
                       Index input_stride, Index output_stride, T* a) {
  for (Index block = 0; block < by.blocks; ++block)
    for (Index k = 0; k < planes; ++k)
      for (Index g = 0; g < by.groups; ++g)
        for (int o = 0; o < by.outputs; ++o)
          for (int j = 0; j < by.inputs; ++j, ++packed) {
            const Index out = block * by.outputs + o;
            if (out < outer)
              a[k * plane + (g * by.inputs + j) * input_stride + out * output_stride] += *packed;
          }
}

}  // namespace rossby::cpu::ROSSBY_ISA
