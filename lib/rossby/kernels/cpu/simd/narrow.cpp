#include "rossby/kernels/cpu/simd/narrow.hpp"

namespace rossby::cpu::ROSSBY_ISA {

namespace {

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
void narrow_rows(const NarrowProduct<T>& p) {
  constexpr int rows = S > 8 ? S : 8;
  const Index blocks = (p.outer + N - 1) / N;
  for (Index block = 0; block < blocks; ++block) {
    Index row = 0;
    for (; row + rows <= p.rows; row += rows) narrow_block<T, N, S, G, rows>(p, block, row, rows);
    for (; row < p.rows; row += S)
      narrow_block<T, N, S, G, S>(p, block, row, p.rows - row < S ? p.rows - row : S);
  }
}

template <class T, int N, int S>
void narrow_product(const NarrowProduct<T>& p) {
  const Index groups = p.inner / S;
  // One variant is enough for double, which parity runs use: each costs compile time.
  if constexpr (sizeof(T) == 4 && N * S == lanes<T> && N > 1) {
    if (groups == 1) return narrow_rows<T, N, S, 1>(p);
    if (groups == 2) return narrow_rows<T, N, S, 2>(p);
  }
  narrow_rows<T, N, S, 0>(p);
}

/// Calls f with the N and S of `by` as compile-time constants.
template <class T, class F>
void with_lanes(const Lanes& by, const F& f) {
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

template <class T, int N, int S>
void narrow_adjoint(const NarrowAdjoint<T>& p) {
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

}  // namespace

template <int N, class T>
void store_some(const NarrowProduct<T>& p, Index first, Index row, Index count, Index width, const T* sums) {
  using V = Vec<T, N>;
  for (Index s = 0; s < count; ++s, sums += N) {
    T* to = p.y + (row + s) * p.stride() + first;
    if (width == N) {
      V v = load<V>(sums);
      if (p.add)
        v = load<V>(to) + v;
      else if (p.start)
        v += load<V>(p.start + first);
      store(to, v);
    } else {
      for (Index o = 0; o < width; ++o)
        to[o] = sums[o] + (p.add ? to[o] : p.start ? p.start[first + o] : T(0));
    }
  }
}

template <class T>
void multiply(const Lanes& by, const NarrowProduct<T>& p) {
  with_lanes<T>(by, [&]<int N, int S>() { narrow_product<T, N, S>(p); });
}

template <class T>
void adjoint(const Lanes& by, const NarrowAdjoint<T>& p) {
  with_lanes<T>(by, [&]<int N, int S>() { narrow_adjoint<T, N, S>(p); });
}

#define ROSSBY_STORE(T, N) \
  template void store_some<N>(const NarrowProduct<T>&, Index, Index, Index, Index, const T*);
#define ROSSBY_NARROW(T)                                         \
  template void multiply(const Lanes&, const NarrowProduct<T>&); \
  template void adjoint(const Lanes&, const NarrowAdjoint<T>&);  \
  ROSSBY_STORE(T, 1) ROSSBY_STORE(T, 2) ROSSBY_STORE(T, 4) ROSSBY_STORE(T, 8) ROSSBY_STORE(T, 16)
ROSSBY_NARROW(float)
#ifdef ROSSBY_ISA_DOUBLES
ROSSBY_NARROW(double)
#endif

}  // namespace rossby::cpu::ROSSBY_ISA
