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
  const Index width = p.outer - first < N ? p.outer - first : N;
  if (width == N) {
    T rows[L];
    if (p.start) sums += repeat<T, L, N>(p.start + first);
    store(rows, sums);
    for (int s = 0; s < S && s < valid; ++s) {
      T* to = p.y + (row + s) * p.stride() + first;
      if (p.add)
        store(to, load<Vec<T, N>>(to) + load<Vec<T, N>>(rows + s * N));
      else
        store(to, load<Vec<T, N>>(rows + s * N));
    }
    return;
  }
  for (int s = 0; s < S && s < valid; ++s)
    for (Index o = 0; o < width; ++o) {
      T& to = p.y[(row + s) * p.stride() + first + o];
      to = sums[static_cast<int>(s * N + o)] + (p.add ? to : p.start ? p.start[first + o] : T(0));
    }
}

/// `rows` rows of a block of outputs; G groups of inputs (0: known at run time).
template <class T, int N, int S, int G, int rows>
ROSSBY_INLINE void narrow_block(const NarrowProduct<T>& p, Index block, Index row, Index valid) {
  constexpr int L = N * S;
  using V = Vec<T, L>;
  const Index groups = G > 0 ? G : p.inner / S;
  const Index inner = G > 0 ? G * S : p.inner;
  V acc[rows];
  for (int q = 0; q < rows; ++q) acc[q] = V{};
  const T* a = p.packed + block * p.planes * groups * L;
  const T* x = p.x + row * inner;
  if (valid == rows) {
    for (Index k = 0; k < p.planes; ++k, x += p.x_plane)
#pragma GCC unroll 4
      for (Index g = 0; g < groups; ++g, a += L) {
        const V weights = load<V>(a);
#pragma GCC unroll 16
        for (int q = 0; q < rows; ++q) acc[q] += repeat<T, L, S>(x + q * inner + g * S) * weights;
      }
  } else {
    for (Index k = 0; k < p.planes; ++k, x += p.x_plane)
      for (Index g = 0; g < groups; ++g, a += L)
        for (int q = 0; q < valid; ++q) acc[q] += repeat<T, L, S>(x + q * inner + g * S) * load<V>(a);
  }
#pragma GCC unroll 16
  for (int q = 0; q < rows; q += S)
    if (q < valid) store_rows<T, N, S>(p, block * N, row + q, valid - q, fold<T, L, S>(acc + q));
}

template <class T, int N, int S, int G>
inline void narrow_rows(const NarrowProduct<T>& p) {
  constexpr int rows = S > 8 ? S : 8;
  const Index blocks = (p.outer + N - 1) / N;
  for (Index block = 0; block < blocks; ++block) {
    Index row = 0;
    for (; row + rows <= p.rows; row += rows) narrow_block<T, N, S, G, rows>(p, block, row, rows);
    if (row < p.rows) narrow_block<T, N, S, G, rows>(p, block, row, p.rows - row);
  }
}

template <class T, int N, int S>
inline void narrow_product(const NarrowProduct<T>& p) {
  const Index groups = p.inner / S;
  // One variant is enough for double, which parity runs use: each costs compile time.
  if constexpr (sizeof(T) == 4 && N * S == lanes<T> && N > 1) {
    if (groups == 1) return narrow_rows<T, N, S, 1>(p);
    if (groups == 2) return narrow_rows<T, N, S, 2>(p);
    if (groups == 4) return narrow_rows<T, N, S, 4>(p);
  }
  narrow_rows<T, N, S, 0>(p);
}

/// Calls f with the N and S of `by` as compile-time constants.
template <class T, class F>
inline void with_lanes(const Lanes& by, const F& f) {
#define ROSSBY_LANES(N, S)                                                           \
  if constexpr (N * S == lanes<T> || (S == 1 && N < lanes<T>) || (S == 2 && N == 2)) \
    if (by.outputs == N && by.inputs == S) return f.template operator()<N, S>();
  ROSSBY_LANES(1, 1)
  ROSSBY_LANES(1, 2)
  ROSSBY_LANES(1, 4)
  ROSSBY_LANES(1, 8)
  ROSSBY_LANES(1, 16)
  ROSSBY_LANES(2, 1)
  ROSSBY_LANES(2, 2)
  ROSSBY_LANES(2, 4)
  ROSSBY_LANES(2, 8)
  ROSSBY_LANES(4, 1)
  ROSSBY_LANES(4, 2)
  ROSSBY_LANES(4, 4)
  ROSSBY_LANES(8, 1)
  ROSSBY_LANES(8, 2)
  ROSSBY_LANES(16, 1)
#undef ROSSBY_LANES
}

/// y = x · A, as described by NarrowProduct.
template <class T>
inline void multiply(const Lanes& by, const NarrowProduct<T>& p) {
  with_lanes<T>(by, [&]<int N, int S>() { narrow_product<T, N, S>(p); });
}

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

/// Start of a group of inputs: groups follow each other within a plane, then plane by plane.
template <class T, int S>
struct GroupCursor {
  const NarrowAdjoint<T>& p;
  const T* plane;
  Index at = 0;

  ROSSBY_INLINE const T* next() {
    if (at == p.outer) {
      plane += p.u_plane;
      at = 0;
    }
    const T* group = plane + at;
    at += S;
    return group;
  }
};

template <class T, int L, int S, int count>
ROSSBY_INLINE void adjoint_groups(const NarrowAdjoint<T>& p, GroupCursor<T, S>& cursor, T* sums) {
  using V = Vec<T, L>;
  V acc[count];
  const T* u[count];
  for (int q = 0; q < count; ++q) {
    acc[q] = load<V>(sums + q * L);
    u[q] = cursor.next();
  }
  const T* z = p.repeated;
  for (Index m = 0; m < p.rows; ++m, z += L) {
    const V values = load<V>(z);
#pragma GCC unroll 8
    for (int q = 0; q < count; ++q) {
      acc[q] += repeat<T, L, S>(u[q]) * values;
      u[q] += p.outer;
    }
  }
  for (int q = 0; q < count; ++q) store(sums + q * L, acc[q]);
}

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

template <class T, int N, int S>
inline void narrow_adjoint(const NarrowAdjoint<T>& p) {
  constexpr int L = N * S;
  const Index blocks = (p.inner + N - 1) / N;
  const Index groups = p.planes * (p.outer / S);
  T* sums = p.sums;
  for (Index block = 0; block < blocks; ++block) {
    repeat_rows<T, N, S>(p.rows, p.inner, block * N, p.z, p.repeated);
    GroupCursor<T, S> cursor{p, p.u};
    Index group = 0;
    for (; group + 8 <= groups; group += 8, sums += 8 * L) adjoint_groups<T, L, S, 8>(p, cursor, sums);
    for (; group + 4 <= groups; group += 4, sums += 4 * L) adjoint_groups<T, L, S, 4>(p, cursor, sums);
    for (; group + 2 <= groups; group += 2, sums += 2 * L) adjoint_groups<T, L, S, 2>(p, cursor, sums);
    for (; group < groups; ++group, sums += L) adjoint_groups<T, L, S, 1>(p, cursor, sums);
  }
}

template <class T>
inline void adjoint(const Lanes& by, const NarrowAdjoint<T>& p) {
  with_lanes<T>(by, [&]<int N, int S>() { narrow_adjoint<T, N, S>(p); });
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
