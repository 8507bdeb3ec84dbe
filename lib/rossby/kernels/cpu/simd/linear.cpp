#include "rossby/kernels/cpu/simd/linear.hpp"

#include "rossby/kernels/cpu/simd/narrow.hpp"
#include "rossby/kernels/cpu/simd/single.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// Outputs are padded to whole blocks, to less than twice their number.
constexpr int most_packed = 2 * narrow_weights;
constexpr Index rows_together = 128;  // their repeated values stay in the first-level cache

/// Packed weights of some outputs.
template <class T>
struct Outputs {
  Lanes by;
  const T* packed;
};

template <class T>
Outputs<T> pack_outputs(Index in, Index out, const T* w, Index input_stride, Index output_stride, T* packed) {
  const Lanes by = lanes_for<T>(in, out);
  pack_weights(by, Index{1}, out, w, Index{0}, input_stride, output_stride, packed);
  return {by, packed};
}

template <class T>
void multiply_rows(Index rows, Index in, Index out, const T* x, const T* w, Index input_stride,
                   Index output_stride, const T* start, T* y, bool add) {
  if (out == 1 && with_single(in, [&]<int D>() { to_one<T, D>(rows, x, w, input_stride, start, y, add); }))
    return;
  if (in == 1 && !start &&
      with_single(out, [&]<int D>() { from_one<T, D>(rows, x, w, output_stride, y, add); }))
    return;
  if (out <= lanes<T>) {
    T packed[most_packed];
    const Outputs<T> all = pack_outputs(in, out, w, input_stride, output_stride, packed);
    multiply(all.by, NarrowProduct<T>{x, 0, 1, in, packed, y, rows, out, start, add, out});
    return;
  }
  // Whole registers of outputs first, then the rest, because each fills its lanes differently. Both go over
  // the same few rows in turn. The rows are first written from end to end.
  const Index whole = out / lanes<T> * lanes<T>;
  T packed[most_packed];
  const Outputs<T> most = pack_outputs(in, whole, w, input_stride, output_stride, packed);
  const Outputs<T> rest = pack_outputs(in, out - whole, w + whole * output_stride, input_stride,
                                       output_stride, packed + packed_size(most.by, 1));
  for (Index row = 0; row < rows; row += rows_together) {
    const Index count = rows - row < rows_together ? rows - row : rows_together;
    const T* from = x + row * in;
    T* to = y + row * out;
    for (Index i = 0; i < count && !add; ++i)
      for (Index o = 0; o < out; ++o) to[i * out + o] = start ? start[o] : T(0);
    multiply(most.by, NarrowProduct<T>{from, 0, 1, in, most.packed, to, count, whole, nullptr, true, out});
    if (whole < out)
      multiply(rest.by, NarrowProduct<T>{from, 0, 1, in, rest.packed, to + whole, count, out - whole, nullptr,
                                         true, out});
  }
}

template <class T>
void outer_rows(Index rows, Index in, Index out, const T* x, const T* dy, T* dw, Index input_stride,
                Index output_stride) {
  if (in == 1 && with_single(out, [&]<int D>() { outer_of_one<T, D>(rows, x, dy, dw, output_stride); }))
    return;
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

ROSSBY_TABLE(NarrowLinearKernels, multiply_rows<T>, outer_rows<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
