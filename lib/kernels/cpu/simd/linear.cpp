#include "rossby/kernels/cpu/simd/linear.hpp"

#include "rossby/kernels/cpu/simd/narrow.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// Outputs are rounded up to a whole number of blocks, each less than twice what it holds.
constexpr int most_packed = 2 * narrow_weights;
constexpr Index rows_together = 128;  // whose repeated values stay in the first-level cache

/// y (rows) (+)= x (rows, S) · w: L/S rows a register, none of which is scaled by another's inputs.
template <class T, int S>
void multiply_columns(Index rows, const T* x, const T* w, T* y, bool add) {
  constexpr int L = lanes<T>;
  using V = Vec<T, L>;
  const V weights = repeat<T, L, S>(w);
  const auto block = [&](const T* from, T* to) {
    V sums[S];
#pragma GCC unroll 8
    for (int q = 0; q < S; ++q) sums[q] = load<V>(from + q * L) * weights;
    const V all = fold<T, L, S>(sums);
    store(to, add ? load<V>(to) + all : all);
  };
  Index row = 0;
  for (; row + L <= rows; row += L) block(x + row * S, y + row);
  if (row == rows) return;
  T last[L * S], results[L];
  for (Index q = 0; q < L * S; ++q) last[q] = q < (rows - row) * S ? x[row * S + q] : T(0);
  for (Index q = 0; q < L; ++q) results[q] = add && row + q < rows ? y[row + q] : T(0);
  block(last, results);
  for (Index q = 0; row + q < rows; ++q) y[row + q] = results[q];
}

/// The same for inputs that fill a part of a register; false for others.
template <class T>
bool multiply_column(Index rows, Index in, const T* x, const T* w, Index input_stride, T* y, bool add) {
  T weights[8];
  if (in >= lanes<T> || in > 8) return false;
  for (Index f = 0; f < in; ++f) weights[f] = w[f * input_stride];
  if (in == 2) return multiply_columns<T, 2>(rows, x, weights, y, add), true;
  if constexpr (lanes < T >> 4)
    if (in == 4) return multiply_columns<T, 4>(rows, x, weights, y, add), true;
  if constexpr (lanes < T >> 8)
    if (in == 8) return multiply_columns<T, 8>(rows, x, weights, y, add), true;
  return false;
}

template <class T>
void multiply_rows(Index rows, Index in, Index out, const T* x, const T* w, Index input_stride,
                   Index output_stride, T* y, bool add) {
  if (out == 1 && multiply_column(rows, in, x, w, input_stride, y, add)) return;
  // Whole registers of outputs, then what is left: each fills its lanes in its own way.
  const Index whole = out > lanes<T> ? out / lanes<T> * lanes<T> : out;
  for (Index first = 0; first < out; first += whole) {
    const Index here = out - first < whole ? out - first : whole;
    const Lanes by = lanes_for<T>(in, here);
    T packed[most_packed];
    pack_weights(by, Index{1}, here, w + first * output_stride, Index{0}, input_stride, output_stride,
                 packed);
    multiply(by, NarrowProduct<T>{x, 0, 1, in, packed, y + first, rows, here, nullptr, add, out});
  }
}

template <class T>
void outer_rows(Index rows, Index in, Index out, const T* x, const T* dy, T* dw, Index input_stride,
                Index output_stride) {
  const Lanes by = lanes_for<T>(in, out);
  T repeated[rows_together * lanes<T>], sums[most_packed];
  for (Index q = 0; q < packed_size(by, 1); ++q) sums[q] = T(0);
  for (Index m = 0; m < rows; m += rows_together) {
    const Index count = rows - m < rows_together ? rows - m : rows_together;
    adjoint(by, NarrowAdjoint<T>{x + m * in, 0, 1, in, dy + m * out, count, out, repeated, sums});
  }
  unpack_add(by, Index{1}, out, sums, Index{0}, input_stride, output_stride, dw);
}

}  // namespace

template <class T>
const NarrowLinearKernels<T>& narrow_linear_kernels() {
  static constexpr NarrowLinearKernels<T> kernels{multiply_rows<T>, outer_rows<T>};
  return kernels;
}
template const NarrowLinearKernels<float>& narrow_linear_kernels<float>();
template const NarrowLinearKernels<double>& narrow_linear_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
