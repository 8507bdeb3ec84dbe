#include "rossby/kernels/cpu/simd/columns.hpp"

#include "rossby/kernels/cpu/simd/transpose.hpp"

// One or two values a node and column are moved as units of 4 or 8 bytes: blocks of K columns × a register of
// nodes are transposed in registers. More values are moved in runs, of a length known at compile time where
// it is a usual one.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

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

  template <int d>
  ROSSBY_INLINE void run(Index i, Index b, Index length) const {
    const T* x = from[b] + i * (d ? d : length);
    T* to = out + i * row_stride + b * (d ? d : length);
    if constexpr (d > 0)
      store(to, load<Vec<T, d>>(x));
    else
      for (Index c = 0; c < length; ++c) to[c] = x[c];
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

  template <int d>
  ROSSBY_INLINE void run(Index i, Index b, Index length) const {
    T* sum = to[b] + i * (d ? d : length);
    const T* x = in + i * row_stride + b * (d ? d : length);
    if constexpr (d > 0)
      store(sum, begins(b) ? load<Vec<T, d>>(x) : load<Vec<T, d>>(sum) + load<Vec<T, d>>(x));
    else
      for (Index c = 0; c < length; ++c) sum[c] = begins(b) ? x[c] : sum[c] + x[c];
  }

  [[nodiscard]] ROSSBY_INLINE bool begins(Index b) const {
    return anew && anew[b] != 0;
  }
};

template <int d, class Move>
ROSSBY_INLINE void move_runs(const Move& move, Index first, Index nodes, Index b, Index columns,
                             Index length) {
  for (; b < columns; ++b)
    for (Index i = first; i < nodes; ++i) move.template run<d>(i, b, length);
}

template <class Unit, int K, int d, class Move>
ROSSBY_INLINE void move_blocks(const Move& move, Index nodes, Index& b, Index columns) {
  for (; b + K <= columns; b += K) {
    Index i = 0;
    for (; i + lanes<Unit> <= nodes; i += lanes<Unit>) move.template block<Unit, K>(i, b);
    move_runs<d>(move, i, nodes, b, b + K, d);
  }
}

template <class Unit, int d, class Move>
ROSSBY_INLINE void move_units(const Move& move, Index nodes, Index columns) {
  Index b = 0;
  move_blocks<Unit, 8, d>(move, nodes, b, columns);
  move_blocks<Unit, 4, d>(move, nodes, b, columns);
  move_blocks<Unit, 2, d>(move, nodes, b, columns);
  move_runs<d>(move, 0, nodes, b, columns, d);
}

template <class T, class Move>
ROSSBY_INLINE void move_columns(const Move& move, Index nodes, Index columns, Index d) {
  if (d == 1) return move_units<T, 1>(move, nodes, columns);
  if constexpr (sizeof(T) == 4)
    if (d == 2) return move_units<double, 2>(move, nodes, columns);
  if (d == 4) return move_runs<4>(move, 0, nodes, 0, columns, d);
  if (d == 8) return move_runs<8>(move, 0, nodes, 0, columns, d);
  if (d == 16) return move_runs<16>(move, 0, nodes, 0, columns, d);
  move_runs<0>(move, 0, nodes, 0, columns, d);
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

template <class T>
const ColumnKernels<T>& column_kernels() {
  static constexpr ColumnKernels<T> kernels{join<T>, split_add<T>};
  return kernels;
}
template const ColumnKernels<float>& column_kernels<float>();
template const ColumnKernels<double>& column_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
