#include "rossby/kernels/linear.hpp"

#include <array>

#include "rossby/kernels/cpu/blas.hpp"
#include "rossby/kernels/cpu/linear_tiny.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/bf16_product.hpp"
#include "rossby/kernels/cpu/simd/linear.hpp"
#include "rossby/kernels/cpu/simd/tall.hpp"

namespace rossby::cpu {
namespace {

constexpr Index row_piece = 512;     // minimum of rows per GEMM call
constexpr Index long_piece = 2048;   // maximum: each call packs the weights again
constexpr Index weight_piece = 64;   // rows of dW per GEMM call if rows are not split
constexpr Index most_partials = 32;  // of a reduction over rows
constexpr Index most_scratch = Index{1} << 19;
// Layers at least this wide gain by operands in bf16, as measured with AVX-512 BF16 against the narrow
// products.
constexpr Index least_rounded = 16, least_rounded_weights = 1024;
// Rows of few columns are added in groups that fill registers.
constexpr Index few_columns = 16;
constexpr Index rows_at_once = 16;

/// Rows per GEMM call: eight pieces for threads, unless they would be too short.
Index piece_rows(Index m) {
  return std::clamp(m / 8, row_piece, long_piece);
}

/// Rows of a partial sum; depends on the shape alone.
Index partial_rows(Index m, Index size) {
  const Index wanted = std::min((m + row_piece - 1) / row_piece, most_partials);
  const Index partials = std::max<Index>(1, std::min(wanted, most_scratch / std::max<Index>(1, size)));
  return std::max<Index>(1, (m + partials - 1) / partials);
}

template <class T>
MatrixView<T> row_block(MatrixView<T> matrix, Index first, Index last) {
  return {matrix.row(first), last - first, matrix.cols, matrix.stride};
}

template <class T>
void fill_rows(MatrixView<T> y, const T* values) {
  if (y.cols == 1 && y.stride == 1) return void(std::fill_n(y.data, y.rows, values[0]));
  for (Index i = 0; i < y.rows; ++i) std::copy_n(values, y.cols, y.row(i));
}

template <class T>
void set_zero(MatrixView<T> y) {
  if (y.stride == y.cols) return void(std::fill_n(y.data, y.size(), T{0}));
  for (Index i = 0; i < y.rows; ++i) std::fill_n(y.row(i), y.cols, T{0});
}

/// y += values (cols) in every row.
template <class T>
void add_to_rows(MatrixView<T> y, const T* values) {
  if (y.cols == 1 && y.stride == 1) {
    for (Index i = 0; i < y.rows; ++i) y.data[i] += values[0];
    return;
  }
  if (y.stride != y.cols || y.cols > few_columns) {
    for (Index i = 0; i < y.rows; ++i)
      for (Index o = 0; o < y.cols; ++o) y.row(i)[o] += values[o];
    return;
  }
  std::array<T, rows_at_once * few_columns> repeated;
  for (Index q = 0; q < rows_at_once; ++q) std::copy_n(values, y.cols, repeated.data() + q * y.cols);
  for (Index i = 0; i < y.rows; i += rows_at_once) {
    const Index size = std::min(rows_at_once, y.rows - i) * y.cols;
    for (Index k = 0; k < size; ++k) y.row(i)[k] += repeated[static_cast<std::size_t>(k)];
  }
}

/// to (cols) += Σ of the rows of y.
template <class T>
void add_rows(T* to, MatrixView<const T> y) {
  if (y.cols == 1) {
    to[0] += static_cast<T>(sum_lanes(y.rows, [&](Index i) { return double{y.data[i * y.stride]}; }));
    return;
  }
  Index i = 0;
  if (y.stride == y.cols && y.cols <= few_columns && y.rows >= rows_at_once) {
    std::array<T, rows_at_once * few_columns> sums{};
    for (; i + rows_at_once <= y.rows; i += rows_at_once)
      for (Index k = 0; k < rows_at_once * y.cols; ++k) sums[static_cast<std::size_t>(k)] += y.row(i)[k];
    for (Index k = 0; k < rows_at_once * y.cols; ++k) to[k % y.cols] += sums[static_cast<std::size_t>(k)];
  }
  for (; i < y.rows; ++i)
    for (Index o = 0; o < y.cols; ++o) to[o] += y.row(i)[o];
}

/// True if the narrow products take a layer: packed rows, enough of them to pay for packing the weights, and
/// more than one channel.
template <class A, class B>
bool is_narrow(MatrixView<A> x, MatrixView<B> y) {
  const Index weights = x.cols * y.cols;
  return x.stride == x.cols && y.stride == y.cols && weights > 1 && weights <= narrow_weights && x.rows >= 32;
}

/// True if a layer's operands are rounded to bf16. This depends on its width alone, so it does not change
/// with the rows of a rank or thread.
template <class T>
bool is_rounded(const Exec& exec, Index in, Index out) {
  return std::is_same_v<T, float> && exec.products == Products::bf16 && std::min(in, out) >= least_rounded &&
         in * out >= least_rounded_weights;
}

/// c (+)= a·b with rounded operands, if the layer's are rounded. Otherwise does nothing and returns false.
template <class T>
bool rounded_product(const Exec& exec, bool rounded, MatrixView<T> c, Index inner, Strided<T> a, Strided<T> b,
                     bool add) {
  if constexpr (std::is_same_v<T, float>) {
    if (rounded) bf16_products(exec.isa).multiply(c.rows, c.cols, inner, a, b, c.data, c.stride, add);
    return rounded;
  }
  return false;
}

/// True if the tall products replace BLAS for a layer (m, inner) → (m, cols). They are faster (measured with
/// AVX-512 only) if outputs fill their panels.
template <class T>
bool is_tall(const Exec& exec, Index m, Index inner, Index cols) {
  constexpr Index panel = 128 / static_cast<Index>(sizeof(T));
  return isa_of<T>(exec.isa) == Isa::avx512 && m >= 64 && inner >= 16 && inner <= 2048 && cols <= 1024 &&
         5 * cols >= 4 * ((cols + panel - 1) / panel * panel);
}

/// y = x·Wᵀ from `start` (null: zero), or y += x·Wᵀ with `accumulate`; for shapes that no narrow product
/// takes.
template <class T>
void wide_forward(const Exec& exec, MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight,
                  const T* start, bool accumulate, bool rounded) {
  if (start) fill_rows(y, start);
  const bool add = accumulate || start;
  if (rounded_product<T>(exec, rounded, y, x.cols, {x.data, x.stride, 1}, {weight.data, 1, weight.stride},
                         add))
    return;
  if (x.cols == 0) {
    if (!add) set_zero(y);
  } else if (is_tall<T>(exec, y.rows, x.cols, y.cols)) {
    kernels_of<TallKernels, T>(exec.isa).multiply(y.rows, y.cols, x.cols, {x.data, x.stride, 1},
                                                  {weight.data, 1, weight.stride}, y.data, y.stride, add);
  } else if (!tiny::forward(y, x, weight, add)) {
    gemm(Side::plain, Side::transposed, x, weight, add ? T{1} : T{0}, y);
  }
}

/// dW += dyᵀ·x on one block, or dW = the same without `add`.
template <class T>
void add_outer(const Exec& exec, bool rounded, MatrixView<T> dweight, MatrixView<const T> dy,
               MatrixView<const T> x, bool add = true) {
  if (rounded_product<T>(exec, rounded, dweight, dy.rows, {dy.data, 1, dy.stride}, {x.data, x.stride, 1},
                         add))
    return;
  const bool gemm_takes_it = !is_narrow(dy, x) && !tiny::is_tiny(dy.rows, x.cols, dy.cols);
  if (!add && !gemm_takes_it) set_zero(dweight);
  if (is_narrow(dy, x))
    kernels_of<NarrowLinearKernels, T>(exec.isa).outer(x.rows, dy.cols, x.cols, dy.data, x.data, dweight.data,
                                                       dweight.stride, 1);
  else if (gemm_takes_it && is_tall<T>(exec, dy.cols, std::min<Index>(dy.rows, 2048), x.cols) &&
           dy.rows >= 256)
    kernels_of<TallKernels, T>(exec.isa).multiply(dy.cols, x.cols, dy.rows, {dy.data, 1, dy.stride},
                                                  {x.data, x.stride, 1}, dweight.data, dweight.stride, add);
  else if (!tiny::outer(dweight, dy, x))
    gemm(Side::transposed, Side::plain, dy, x, add || !gemm_takes_it ? T{1} : T{0}, dweight);
}

/// Runs partial(block, first, last), which fills a block of the shape of `total`, over row blocks and adds
/// the blocks to `total` in order.
template <class T, class Partial>
void reduce_rows(const Exec& exec, Index m, MatrixView<T> total, Index work, std::span<T> scratch,
                 const Partial& partial) {
  const Index size = total.size();
  const Index rows = partial_rows(m, size);
  for_each_piece(exec, m, rows, work, [&](Index first, Index last) {
    partial(scratch.data() + first / rows * size, first, last);
  });
  const Index lines = std::max<Index>(1, flat_piece / std::max<Index>(1, total.cols));
  for_each_piece(exec, total.rows, lines, size * (m / rows), [&](Index first, Index last) {
    for (Index o = first; o < last; ++o)
      for (Index p = 0; p * rows < m; ++p) {
        const T* from = scratch.data() + p * size + o * total.cols;
        T* to = total.row(o);
        for (Index k = 0; k < total.cols; ++k) to[k] += from[k];
      }
  });
}

}  // namespace
}  // namespace rossby::cpu

namespace rossby {

Index linear_scratch_size(Index m, Index out, Index in) {
  const Index rows = cpu::partial_rows(m, out * in);
  const Index partials = (m + rows - 1) / rows;
  return partials <= 1 ? 0 : partials * out * in;
}

}  // namespace rossby

namespace rossby::cpu {

template <class T>
void bias_add(const Exec& exec, MatrixView<T> y, const T* bias) {
  for_each_piece(exec, y.rows, row_piece, y.size(),
                 [&](Index first, Index last) { add_to_rows(row_block(y, first, last), bias); });
}

template <class T>
void linear_forward(const Exec& exec, MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight,
                    const T* bias, bool accumulate) {
  if (y.size() == 0) return;
  const bool rounded = is_rounded<T>(exec, x.cols, y.cols);
  for_each_piece(
      exec, y.rows, piece_rows(y.rows), y.rows * (weight.size() + y.cols), [&](Index first, Index last) {
        const auto part = row_block(y, first, last);
        const auto input = row_block(x, first, last);
        const T* start = accumulate ? nullptr : bias;
        if (!rounded && is_narrow(input, part))
          kernels_of<NarrowLinearKernels, T>(exec.isa).multiply(part.rows, x.cols, y.cols, input.data,
                                                                weight.data, 1, weight.stride, start,
                                                                part.data, accumulate);
        else
          wide_forward(exec, part, input, weight, start, accumulate, rounded);
        if (accumulate && bias) add_to_rows(part, bias);
      });
}

template <class T>
void linear_backward_input(const Exec& exec, MatrixView<T> dx, MatrixView<const T> dy,
                           MatrixView<const T> weight, bool accumulate) {
  if (dx.size() == 0 || (dy.cols == 0 && accumulate)) return;
  for_each_piece(
      exec, dx.rows, piece_rows(dx.rows), dx.rows * (weight.size() + dx.cols), [&](Index first, Index last) {
        const auto part = row_block(dx, first, last);
        const auto delta = row_block(dy, first, last);
        if (rounded_product<T>(exec, is_rounded<T>(exec, dx.cols, dy.cols), part, dy.cols,
                               {delta.data, delta.stride, 1}, {weight.data, weight.stride, 1}, accumulate))
          return;
        if (is_narrow(delta, part))
          kernels_of<NarrowLinearKernels, T>(exec.isa).multiply(part.rows, dy.cols, dx.cols, delta.data,
                                                                weight.data, weight.stride, 1, nullptr,
                                                                part.data, accumulate);
        else if (is_tall<T>(exec, part.rows, dy.cols, dx.cols))
          kernels_of<TallKernels, T>(exec.isa).multiply(
              part.rows, dx.cols, dy.cols, {delta.data, delta.stride, 1}, {weight.data, weight.stride, 1},
              part.data, part.stride, accumulate);
        else if (tiny::is_tiny(part.rows, dx.cols, dy.cols) || dy.cols == 0) {
          if (!accumulate) set_zero(part);
          if (dy.cols > 0 && !tiny::backward_input(part, delta, weight))
            gemm(Side::plain, Side::plain, delta, weight, T{1}, part);
        } else
          gemm(Side::plain, Side::plain, delta, weight, accumulate ? T{1} : T{0}, part);
      });
}

template <class T>
void linear_backward_weight(const Exec& exec, MatrixView<T> dweight, MatrixView<const T> dy,
                            MatrixView<const T> x, std::span<T> scratch) {
  const Index out = dweight.rows;
  const Index in = dweight.cols;
  if (dweight.size() == 0 || x.rows == 0) return;
  const Index work = x.rows * dweight.size();
  const bool rounded = is_rounded<T>(exec, in, out);
  if (linear_scratch_size(x.rows, out, in) == 0) {
    for_each_piece(exec, out, weight_piece, work, [&](Index first, Index last) {
      add_outer(exec, rounded, row_block(dweight, first, last),
                MatrixView<const T>{dy.data + first, dy.rows, last - first, dy.stride}, x);
    });
    return;
  }
  reduce_rows(exec, x.rows, dweight, work, scratch, [&](T* block, Index first, Index last) {
    add_outer(exec, rounded, MatrixView<T>{block, out, in}, row_block(dy, first, last),
              row_block(x, first, last), false);
  });
}

template <class T>
void column_sum(const Exec& exec, T* dbias, MatrixView<const T> dy, std::span<T> scratch) {
  if (dy.size() == 0) return;
  if (linear_scratch_size(dy.rows, dy.cols, 1) == 0) return add_rows(dbias, dy);
  reduce_rows(exec, dy.rows, MatrixView<T>(dbias, 1, dy.cols), dy.size(), scratch,
              [&](T* block, Index first, Index last) {
                std::fill_n(block, dy.cols, T{0});
                add_rows(block, row_block(dy, first, last));
              });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, bias_add, linear_forward, linear_backward_input, linear_backward_weight, column_sum)
