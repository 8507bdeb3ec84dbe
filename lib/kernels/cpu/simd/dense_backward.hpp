#pragma once

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_lane.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dense_tile.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// What becomes of the gradients of a vector of weights.
template <DenseSink sink, class S>
struct Sink {
  using T = Arithmetic<S>;
  using V = Vec<T, lanes<T>>;
  static constexpr bool adam_too = sink != DenseSink::accumulate, with_m = sink == DenseSink::adam_moment;
  static constexpr bool rounds = sizeof(S) != sizeof(T);
  DenseBackward<S>& b;
  AdamConstants<T> adam = {};
  bool fetch = true;  // what is `ahead` comes into the cache from here
  V squares = {};

  /// `vectors` of a row, the last with `count` values, from column `column` on; `ahead` of them is what comes
  /// into the cache meanwhile.
  template <int vectors>
  ROSSBY_INLINE void pass(const T* gradient, Index row, Index column, Index count, Index ahead) {
    const Index at = row * b.stride + column;
    V theta[vectors], passed[vectors], second[vectors], first[vectors];
#pragma GCC unroll 3
    for (int q = 0; q < vectors; ++q) {
      const Index k = at + q * lanes<T>;
      theta[q] = load_part<V>(b.weight + k, count);
      passed[q] = load_part<V>(gradient + q * lanes<T>, count) + b.l1;
      if (b.clamped) passed[q] = keep_inside01(passed[q], theta[q]);
      if (b.pattern) passed[q] = keep_flagged(passed[q], b.pattern + k, count);
      squares += passed[q] * passed[q];
      if constexpr (adam_too)
        second[q] = load_part<V>(b.v + k, count);
      else
        second[q] = load_part<V>(b.dm + k, count);
      first[q] = with_m ? load_part<V>(b.m + k, count) : V{};
      if (!fetch || (rounds && q % 2)) continue;
      __builtin_prefetch(b.weight + k + ahead);
      if constexpr (adam_too)
        __builtin_prefetch(b.v + k + ahead);
      else
        __builtin_prefetch(b.dm + k + ahead);
      if constexpr (with_m) __builtin_prefetch(b.m + k + ahead);
    }
    if constexpr (adam_too) adam_lanes<vectors, with_m>(theta, first, second, passed, adam);
    [[maybe_unused]] const std::uint32_t row_bits = rounds && adam_too ? b.rounding.row(b.relation, row) : 0;
#pragma GCC unroll 3
    for (int q = 0; q < vectors; ++q) {
      const Index k = at + q * lanes<T>;
      if constexpr (rounds && adam_too) {
        const Rounding random(row_bits, b.first_column + column + q * lanes<T>);
        Rounding::store(b.weight + k, theta[q], random.theta(), count);
        Rounding::store(b.v + k, second[q], random.v(), count);
        if constexpr (with_m) Rounding::store(b.m + k, first[q], random.m(), count);
      } else if constexpr (adam_too) {
        store_part(b.weight + k, theta[q], count);
        store_part(b.v + k, second[q], count);
        if constexpr (with_m) store_part(b.m + k, first[q], count);
      } else {
        store_part(b.dm + k, second[q] + passed[q], count);
      }
    }
  }

  /// One row of a strip: `count` columns from `column`.
  ROSSBY_INLINE void row(const T* gradient, Index row, Index column, Index count, Index ahead) {
    if (count >= strip<T>) return pass<strip_vectors>(gradient, row, column, lanes<T>, ahead);
    for (Index j = 0; j < count; j += lanes<T>) pass<1>(gradient + j, row, column + j, count - j, ahead);
  }

  void finish() {
    b.squares += static_cast<double>(sum_of_lanes<T, lanes<T>>(squares));
    squares = V{};
  }
};

/// Lines that come into the cache while products go on: `count` lines, `stride` bytes apart.
struct Ahead {
  const char* line = nullptr;
  Index stride = 0;
  Index count = 0;
};

/// u (outputs, strip) += Gᵀ W of one tile: g (rows, width) at the first output, w (rows, strip). A line of
/// `ahead` every second row.
template <int outputs, class T>
ROSSBY_INLINE void transposed_product(T* u, const T* w, const T* g, Index width, Index rows,
                                      Ahead ahead = {}) {
  using V = Vec<T, lanes<T>>;
  V acc[outputs][strip_vectors];
  for (int o = 0; o < outputs; ++o)
    for (int q = 0; q < strip_vectors; ++q) acc[o][q] = load<V>(u + o * strip<T> + q * lanes<T>);
  for (Index i = 0; i < rows; ++i) {
    if (!(i & 1) && i / 2 < ahead.count) __builtin_prefetch(ahead.line + i / 2 * ahead.stride);
    V wi[strip_vectors];
    for (int q = 0; q < strip_vectors; ++q) wi[q] = load<V>(w + i * strip<T> + q * lanes<T>);
    for (int o = 0; o < outputs; ++o) {
      const V gi = splat<V>(g[i * width + o]);
      for (int q = 0; q < strip_vectors; ++q) acc[o][q] += gi * wi[q];
    }
  }
  for (int o = 0; o < outputs; ++o)
    for (int q = 0; q < strip_vectors; ++q) store(u + o * strip<T> + q * lanes<T>, acc[o][q]);
}

/// d (block, strip) += G zᵀ: g (block, width) and z (width, strip) at the first of `count` of the width's
/// values.
template <int block, bool add, class T>
ROSSBY_INLINE void outer_product(T* d, const T* g, const T* z, Index width, Index count, Ahead ahead = {}) {
  using V = Vec<T, lanes<T>>;
  V acc[block][strip_vectors] = {};
  if constexpr (add)
    for (int r = 0; r < block; ++r)
      for (int q = 0; q < strip_vectors; ++q) acc[r][q] = load<V>(d + r * strip<T> + q * lanes<T>);
  for (Index o = 0; o < count; ++o) {
    if (!(o & 1) && o / 2 < ahead.count) __builtin_prefetch(ahead.line + o / 2 * ahead.stride);
    V zo[strip_vectors];
    for (int q = 0; q < strip_vectors; ++q) zo[q] = load<V>(z + o * strip<T> + q * lanes<T>);
    for (int r = 0; r < block; ++r) {
      const V gr = splat<V>(g[r * width + o]);
      for (int q = 0; q < strip_vectors; ++q) acc[r][q] += gr * zo[q];
    }
  }
  for (int r = 0; r < block; ++r)
    for (int q = 0; q < strip_vectors; ++q) store(d + r * strip<T> + q * lanes<T>, acc[r][q]);
}

template <DenseSink sink, class S>
struct BackwardTile {
  using T = Arithmetic<S>;
  /// Rows that go through a strip together: few where little is computed for each weight, so that rows are
  /// read in the long runs that the hardware fetches ahead; more where that would read u and z too often.
  static constexpr Index most_rows = 64;
  static constexpr Index narrow_rows = 8;
  static constexpr Index narrow_width = 24;
  static constexpr int block = accumulators / strip_vectors;
  static_assert(dense_row_padding % block == 0);
  DenseBackward<S>& b;
  Sink<sink, S> out;
  alignas(64) T effective[most_rows * strip<T>];
  alignas(64) T gradient[block * strip<T>];
  bool between = false;  // lines are fetched between products, not where they are used up

  /// Lines a row of a strip has in all arrays that a pass goes over.
  static constexpr int arrays = sink == DenseSink::none ? 1 : sink == DenseSink::adam_moment ? 3 : 2;
  static constexpr int first_lines = strip_lines<S>;  // of W
  static constexpr int second_lines = sink == DenseSink::accumulate ? strip_lines<T> : strip_lines<S>;
  static constexpr int other_lines = (arrays > 1 ? second_lines : 0) + (arrays > 2 ? strip_lines<S> : 0);
  static constexpr int most_fetched = first_lines > other_lines ? first_lines : other_lines;  // at a time

  /// Line number `line` of an array at place `at`, of rows `b.stride` apart.
  template <class A>
  ROSSBY_INLINE Ahead lines_of(const A* array, int line, Index at, Index count) const {
    const Index bytes = static_cast<Index>(sizeof(A));
    return {reinterpret_cast<const char*>(array + at + line * line_values<A>), b.stride * bytes, count};
  }

  /// The next strip's line number `line` of some rows, of all arrays.
  ROSSBY_INLINE Ahead lines(int line, Index row, Index s, Index ahead, Index count) const {
    const Index at = row * b.stride + s * strip<T> + ahead;
    if (line < first_lines) return lines_of(b.weight, line, at, count);
    line -= first_lines;
    if (sink == DenseSink::accumulate) return lines_of(b.dm, line, at, count);
    return line < second_lines ? lines_of(b.v, line, at, count)
                               : lines_of(b.m, line - second_lines, at, count);
  }

  ROSSBY_INLINE void add_u(Index begin, Index rows, Index s, Index count, Index ahead) {
    for (Index r = 0; r < rows; ++r) {
      const Index at = (begin + r) * b.stride + s * strip<T>;
      if constexpr (sink == DenseSink::none)
        if (out.fetch)
          for (int q = 0; q < first_lines; ++q)
            __builtin_prefetch(b.weight + at + ahead + q * line_values<S>);
      const std::uint8_t* pattern = b.pattern ? b.pattern + at : nullptr;
      if (b.clamped)
        effective_row<true>(effective + r * strip<T>, b.weight + at, pattern, count, strip<T>);
      else
        effective_row<false>(effective + r * strip<T>, b.weight + at, pattern, count, strip<T>);
    }
    const T* g = b.g + begin * b.width;
    T* u = b.u + s * b.width * strip<T>;
    Index o = 0;
    // W's lines here, those of the other arrays beside the outer products: what memory delivers in the time.
    for (Index half = 0; o + block <= b.width; o += block, ++half) {
      const Index line = half / 2, row = half % 2 * (rows / 2);
      transposed_product<block>(
          u + o * strip<T>, effective, g + o, b.width, rows,
          between && line < first_lines
              ? lines(static_cast<int>(line), begin + row, s, ahead, half % 2 ? rows - rows / 2 : rows / 2)
              : Ahead{});
    }
    if constexpr (block > 4)
      for (; o + 4 <= b.width; o += 4)
        transposed_product<4>(u + o * strip<T>, effective, g + o, b.width, rows);
    for (; o + 2 <= b.width; o += 2) transposed_product<2>(u + o * strip<T>, effective, g + o, b.width, rows);
    for (; o < b.width; ++o) transposed_product<1>(u + o * strip<T>, effective, g + o, b.width, rows);
  }

  /// gradient = G zᵀ of a block of rows.
  ROSSBY_INLINE void products(Index row, Index s, const T* z, Index ahead) {
    const T* g = b.g + row * b.width;
    if (!between) return outer_product<block, false>(gradient, g, z, b.width, b.width);
    constexpr Index each = 2 * block;  // values of the width beside one line of the rows
    outer_product<block, false>(gradient, g, z, b.width, each, lines(first_lines, row, s, ahead, block));
    Index o = each;
    for (int line = 1; line < other_lines; ++line, o += each)
      outer_product<block, true>(gradient, g + o, z + o * strip<T>, b.width, each,
                                 lines(first_lines + line, row, s, ahead, block));
    outer_product<block, true>(gradient, g + o, z + o * strip<T>, b.width, b.width - o);
  }

  ROSSBY_INLINE void pass_gradient(Index begin, Index rows, Index s, Index count, Index ahead) {
    const T* z = b.z + s * b.width * strip<T>;
    for (Index r = 0; r < rows; r += block) {
      products(begin + r, s, z, ahead);
      const Index here = rows - r < block ? rows - r : block;
      for (Index q = 0; q < here; ++q)
        out.row(gradient + q * strip<T>, begin + r + q, s * strip<T>, count, ahead);
    }
    out.finish();
  }

  void run() {
    const Index tile_rows = b.width <= narrow_width ? narrow_rows : most_rows;
    const Index strips = (b.columns + strip<T> - 1) / strip<T>;
    // With enough products, what comes next is fetched between them, evenly.
    between = b.u && b.width >= 2 * block * most_fetched;
    out.fetch = !between;
    for (Index begin = 0; begin < b.rows; begin += tile_rows) {
      const Index rows = b.rows - begin < tile_rows ? b.rows - begin : tile_rows;
      for (Index s = 0; s < strips; ++s) {
        const Index left = b.columns - s * strip<T>;
        const Index count = left < strip<T> ? left : strip<T>;
        const Index ahead = s + 1 < strips ? strip<T> : tile_rows * b.stride - s * strip<T>;
        if (b.u) add_u(begin, rows, s, count, ahead);
        if constexpr (sink != DenseSink::none) pass_gradient(begin, rows, s, count, ahead);
      }
    }
  }
};

template <DenseSink sink, class S>
void backward(DenseBackward<S>& b) {
  const FlushSubnormals flush;  // as the update by itself does
  BackwardTile<sink, S> tile{b, {b}, {}, {}};
  if (b.adam) tile.out.adam = *b.adam;
  tile.run();
}

/// The sink alone, for gradients that another kernel has made.
template <DenseSink sink, class S>
void sink_rows(DenseBackward<S>& b, const Arithmetic<S>* gradient, Index gradient_stride) {
  using T = Arithmetic<S>;
  if constexpr (sink != DenseSink::none) {
    const FlushSubnormals flush;
    Sink<sink, S> out{b};
    if (b.adam) out.adam = *b.adam;
    for (Index i = 0; i < b.rows; ++i) {
      for (Index j = 0; j < b.columns; j += strip<T>)
        out.row(gradient + i * gradient_stride + j, i, j, b.columns - j, 0);
      out.finish();
    }
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
