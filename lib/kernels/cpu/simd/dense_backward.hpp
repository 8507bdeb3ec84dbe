#pragma once

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_lane.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dense_tile.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// What becomes of the gradients of a vector of weights.
template <DenseSink sink, class T>
struct Sink {
  using V = Vec<T, lanes<T>>;
  DenseBackward<T>& b;
  AdamConstants<T> adam = {};
  bool fetch = true;  // what is `ahead` comes into the cache from here
  V squares = {};

  /// `at` is the vector's place in the block; `ahead` what comes into the cache meanwhile.
  ROSSBY_INLINE void vector(V gradient, Index at, Index count, Index ahead) {
    const V weight = load_part<V>(b.weight + at, count);
    V passed = gradient + b.l1;
    if (b.clamped) passed = keep_inside01(passed, weight);
    if (b.pattern) passed = keep_flagged(passed, b.pattern + at, count);
    squares += passed * passed;
    if constexpr (sink == DenseSink::accumulate) {
      if (fetch) {
        __builtin_prefetch(b.weight + at + ahead);
        __builtin_prefetch(b.dm + at + ahead);
      }
      store_part(b.dm + at, load_part<V>(b.dm + at, count) + passed, count);
    } else {
      constexpr bool with_m = sink == DenseSink::adam_moment;
      if (fetch) {
        __builtin_prefetch(b.weight + at + ahead);
        __builtin_prefetch(b.v + at + ahead);
        if constexpr (with_m) __builtin_prefetch(b.m + at + ahead);
      }
      V theta = weight, second = load_part<V>(b.v + at, count), first = {};
      if constexpr (with_m) {
        first = load_part<V>(b.m + at, count);
      }
      adam_lanes<1, with_m>(&theta, &first, &second, &passed, adam);
      store_part(b.weight + at, theta, count);
      store_part(b.v + at, second, count);
      if constexpr (with_m) store_part(b.m + at, first, count);
    }
  }

  /// One row of a strip: `count` columns from `at`.
  ROSSBY_INLINE void row(const T* gradient, Index at, Index count, Index ahead) {
    if (count >= strip<T>) {
      for (int q = 0; q < strip_vectors; ++q)
        vector(load<V>(gradient + q * lanes<T>), at + q * lanes<T>, lanes<T>, ahead);
      return;
    }
    for (Index j = 0; j < count; j += lanes<T>)
      vector(load_part<V>(gradient + j, count - j), at + j, count - j, ahead);
  }

  void finish() {
    b.squares += static_cast<double>(sum_of_lanes<T, lanes<T>>(squares));
    squares = V{};
  }
};

/// u (outputs, strip) += Gᵀ W of one tile: g (rows, width) at the first output, w (rows, strip). Where
/// `ahead` is not null, a line of each of its rows comes into the cache meanwhile.
template <int outputs, class T>
ROSSBY_INLINE void transposed_product(T* u, const T* w, const T* g, Index width, Index rows,
                                      const T* ahead = nullptr, Index ahead_stride = 0) {
  using V = Vec<T, lanes<T>>;
  V acc[outputs][strip_vectors];
  for (int o = 0; o < outputs; ++o)
    for (int q = 0; q < strip_vectors; ++q) acc[o][q] = load<V>(u + o * strip<T> + q * lanes<T>);
  for (Index i = 0; i < rows; ++i) {
    __builtin_prefetch(ahead + i * ahead_stride);
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

/// d (block, strip) = G zᵀ: g (block, width), z (width, strip).
template <int block, class T>
ROSSBY_INLINE void outer_product(T* d, const T* g, const T* z, Index width) {
  using V = Vec<T, lanes<T>>;
  V acc[block][strip_vectors] = {};
  for (Index o = 0; o < width; ++o) {
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

template <DenseSink sink, class T>
struct BackwardTile {
  /// Rows that go through a strip together: few where little is computed for each weight, so that rows are
  /// read in the long runs that the hardware fetches ahead; more where that would read u and z too often.
  static constexpr Index most_rows = 16;
  static constexpr Index narrow_rows = 8;
  static constexpr Index narrow_width = 24;
  static constexpr int block = accumulators / strip_vectors;
  static_assert(dense_row_padding % block == 0);
  DenseBackward<T>& b;
  Sink<sink, T> out;
  alignas(64) T effective[most_rows * strip<T>];
  alignas(64) T gradient[block * strip<T>];

  /// Lines a row of a strip has in all arrays that a pass goes over.
  static constexpr int arrays = sink == DenseSink::none ? 1 : sink == DenseSink::adam_moment ? 3 : 2;
  static constexpr int fetched_lines = arrays * strip_vectors;

  ROSSBY_INLINE const T* fetched(int line) const {
    const T* second = sink == DenseSink::accumulate ? b.dm : b.v;
    const T* array = line < strip_vectors ? b.weight : line < 2 * strip_vectors ? second : b.m;
    return array + line % strip_vectors * lanes<T>;
  }

  ROSSBY_INLINE void add_u(Index begin, Index rows, Index s, Index count, Index ahead) {
    for (Index r = 0; r < rows; ++r) {
      const Index at = (begin + r) * b.stride + s * strip<T>;
      if constexpr (sink == DenseSink::none)
        if (out.fetch)
          for (int q = 0; q < strip_vectors; ++q) __builtin_prefetch(b.weight + at + ahead + q * lanes<T>);
      const std::uint8_t* pattern = b.pattern ? b.pattern + at : nullptr;
      if (b.clamped)
        effective_row<true>(effective + r * strip<T>, b.weight + at, pattern, count, strip<T>);
      else
        effective_row<false>(effective + r * strip<T>, b.weight + at, pattern, count, strip<T>);
    }
    const T* g = b.g + begin * b.width;
    T* u = b.u + s * b.width * strip<T>;
    Index o = 0;
    int line = out.fetch ? fetched_lines : 0;
    for (; o + block <= b.width; o += block, ++line)
      transposed_product<block>(
          u + o * strip<T>, effective, g + o, b.width, rows,
          line < fetched_lines ? fetched(line) + begin * b.stride + s * strip<T> + ahead : nullptr,
          line < fetched_lines ? b.stride : 0);
    if constexpr (block > 4)
      for (; o + 4 <= b.width; o += 4)
        transposed_product<4>(u + o * strip<T>, effective, g + o, b.width, rows);
    for (; o + 2 <= b.width; o += 2) transposed_product<2>(u + o * strip<T>, effective, g + o, b.width, rows);
    for (; o < b.width; ++o) transposed_product<1>(u + o * strip<T>, effective, g + o, b.width, rows);
  }

  ROSSBY_INLINE void pass_gradient(Index begin, Index rows, Index s, Index count, Index ahead) {
    const T* z = b.z + s * b.width * strip<T>;
    for (Index r = 0; r < rows; r += block) {
      outer_product<block>(gradient, b.g + (begin + r) * b.width, z, b.width);
      const Index here = rows - r < block ? rows - r : block;
      for (Index q = 0; q < here; ++q)
        out.row(gradient + q * strip<T>, (begin + r + q) * b.stride + s * strip<T>, count, ahead);
    }
    out.finish();
  }

  void run() {
    const Index tile_rows = b.width <= narrow_width ? narrow_rows : most_rows;
    const Index strips = (b.columns + strip<T> - 1) / strip<T>;
    // With enough products, what comes next is fetched between them, evenly.
    out.fetch = !b.u || b.width < fetched_lines * block;
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

template <DenseSink sink, class T>
void backward(DenseBackward<T>& b) {
  const FlushSubnormals flush;  // as the update by itself does
  BackwardTile<sink, T> tile{b, {b}, {}, {}};
  if (b.adam) tile.out.adam = *b.adam;
  tile.run();
}

/// The sink alone, for gradients that another kernel has made.
template <DenseSink sink, class T>
void sink_rows(DenseBackward<T>& b, const T* gradient, Index gradient_stride) {
  if constexpr (sink != DenseSink::none) {
    const FlushSubnormals flush;
    Sink<sink, T> out{b};
    if (b.adam) out.adam = *b.adam;
    using V = Vec<T, lanes<T>>;
    for (Index i = 0; i < b.rows; ++i) {
      for (Index j = 0; j < b.columns; j += lanes<T>)
        out.vector(load_part<V>(gradient + i * gradient_stride + j, b.columns - j), i * b.stride + j,
                   b.columns - j, 0);
      out.finish();
    }
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
