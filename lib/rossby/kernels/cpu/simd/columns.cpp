#include "rossby/kernels/cpu/simd/columns.hpp"

#include <cstddef>

#include "rossby/kernels/cpu/simd/runs.hpp"
#include "rossby/kernels/cpu/simd/transpose.hpp"

// One or two values per node and column are moved as units of 4 or 8 bytes: blocks of K columns × a register
// of nodes are transposed in registers. More values are moved in runs: usual lengths are compile-time
// constants, and masks handle less than a register.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

/// A register of values.
template <class T, class V>
struct WholeRun {
  static constexpr Index length = sizeof(V) / sizeof(T);
  static constexpr Place<true> place{0, length};
};
/// A run of less than a register.
template <class T, class V>
struct ShortRun {
  Index length;
  Place<false> place{0, length};
};
/// A run of more than a register.
struct LongRun {
  Index length;
};

template <class T>
struct Join {
  const T* const* from;
  T* out;
  Index row_stride;

  template <class Unit, int K>
  ROSSBY_INLINE void block(Index i, Index b) const {
    constexpr int L = lanes<Unit>, d = sizeof(Unit) / sizeof(T);
    using V = Vec<Unit, L>;
    V v[K];
#pragma GCC unroll 8
    for (int q = 0; q < K; ++q) v[q] = load<V>(from[b + q] + i * d);
    interleave<Unit, L, K>(v);
    T* to = out + i * row_stride + b * d;
    if (row_stride == K * d) {
#pragma GCC unroll 8
      for (int q = 0; q < K; ++q) store(to + q * L * d, v[q]);
      return;
    }
    T values[K * L * d];
    for (int q = 0; q < K; ++q) store(values + q * L * d, v[q]);
    for (int l = 0; l < L; ++l) store(to + l * row_stride, load<Vec<Unit, K>>(values + l * K * d));
  }

  template <class V, class Part>
  ROSSBY_INLINE void run(const Part& part, Index i, Index b) const {
    const T* x = from[b] + i * part.length;
    T* to = out + i * row_stride + b * part.length;
    if constexpr (requires { part.place; })
      part.place.put(to, part.place.template get<V>(x));
    else
      __builtin_memcpy(to, x, static_cast<std::size_t>(part.length) * sizeof(T));
  }
};

template <class T>
struct SplitAdd {
  T* const* to;
  const Index* anew;
  const T* in;
  Index row_stride;

  template <class Unit, int K>
  ROSSBY_INLINE void block(Index i, Index b) const {
    constexpr int L = lanes<Unit>, d = sizeof(Unit) / sizeof(T);
    using V = Vec<Unit, L>;
    using Values = Vec<T, lanes<T>>;
    V v[K];
    const T* x = in + i * row_stride + b * d;
    if (row_stride == K * d) {
#pragma GCC unroll 8
      for (int q = 0; q < K; ++q) v[q] = load<V>(x + q * L * d);
    } else {
      T values[K * L * d];
      for (int l = 0; l < L; ++l) store(values + l * K * d, load<Vec<Unit, K>>(x + l * row_stride));
      for (int q = 0; q < K; ++q) v[q] = load<V>(values + q * L * d);
    }
    separate<Unit, L, K>(v);
#pragma GCC unroll 8
    for (int q = 0; q < K; ++q) {
      T* sum = to[b + q] + i * d;
      store(sum, begins(b + q) ? (Values)v[q] : load<Values>(sum) + (Values)v[q]);
    }
  }

  template <class V, class Part>
  ROSSBY_INLINE void run(const Part& part, Index i, Index b) const {
    T* sum = to[b] + i * part.length;
    const T* x = in + i * row_stride + b * part.length;
    const bool writes = begins(b);
    if constexpr (requires { part.place; }) {
      const V more = part.place.template get<V>(x);
      part.place.put(sum, writes ? more : part.place.template get<V>(sum) + more);
    } else {
      for (Index c = 0; c < part.length; ++c) sum[c] = writes ? x[c] : sum[c] + x[c];
    }
  }

  [[nodiscard]] ROSSBY_INLINE bool begins(Index b) const {
    return anew && anew[b] != 0;
  }
};

template <class V, class Part, class Move>
ROSSBY_INLINE void move_runs(const Move& move, const Part& part, Index first, Index nodes, Index b,
                             Index columns) {
  for (; b < columns; ++b)
    for (Index i = first; i < nodes; ++i) move.template run<V>(part, i, b);
}
/// A register of d values.
template <class T, int d, class Move>
ROSSBY_INLINE void move_whole(const Move& move, Index first, Index nodes, Index b, Index columns) {
  move_runs<Vec<T, d>>(move, WholeRun<T, Vec<T, d>>{}, first, nodes, b, columns);
}

template <class T, class Unit, int K, class Move>
ROSSBY_INLINE void move_blocks(const Move& move, Index nodes, Index& b, Index columns) {
  for (; b + K <= columns; b += K) {
    Index i = 0;
    for (; i + lanes<Unit> <= nodes; i += lanes<Unit>) move.template block<Unit, K>(i, b);
    move_whole<T, sizeof(Unit) / sizeof(T)>(move, i, nodes, b, b + K);
  }
}

template <class T, class Unit, class Move>
ROSSBY_INLINE void move_units(const Move& move, Index nodes, Index columns) {
  Index b = 0;
  move_blocks<T, Unit, 8>(move, nodes, b, columns);
  move_blocks<T, Unit, 4>(move, nodes, b, columns);
  move_blocks<T, Unit, 2>(move, nodes, b, columns);
  move_whole<T, sizeof(Unit) / sizeof(T)>(move, 0, nodes, b, columns);
}

template <class T, class Move>
ROSSBY_INLINE void move_columns(const Move& move, Index nodes, Index columns, Index d) {
  if (d == 1) return move_units<T, T>(move, nodes, columns);
  if constexpr (sizeof(T) == 4)
    if (d == 2) return move_units<T, double>(move, nodes, columns);
  if (d == 4) return move_whole<T, 4>(move, 0, nodes, 0, columns);
  if (d == 8) return move_whole<T, 8>(move, 0, nodes, 0, columns);
  if (d == 16) return move_whole<T, 16>(move, 0, nodes, 0, columns);
  constexpr int L = lanes<T>;
  if (d < L / 2)
    move_runs<Vec<T, L / 2>>(move, ShortRun<T, Vec<T, L / 2>>{d}, 0, nodes, 0, columns);
  else if (d < L)
    move_runs<Vec<T, L>>(move, ShortRun<T, Vec<T, L>>{d}, 0, nodes, 0, columns);
  else
    move_runs<void>(move, LongRun{d}, 0, nodes, 0, columns);
}

template <class T>
void join(Index nodes, Index columns, Index d, const T* const* from, T* out, Index row_stride) {
  move_columns<T>(Join<T>{from, out, row_stride}, nodes, columns, d);
}

template <class T>
void split_add(Index nodes, Index columns, Index d, T* const* to, const Index* anew, const T* in,
               Index row_stride) {
  move_columns<T>(SplitAdd<T>{to, anew, in, row_stride}, nodes, columns, d);
}

}  // namespace

ROSSBY_TABLE(ColumnKernels, join<T>, split_add<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
