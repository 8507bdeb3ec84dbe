#pragma once

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/dense_sink.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// Lines prefetched into the second-level cache while a strip is computed (the strip fills the first level).
/// A core has at most about sixteen lines in flight and then waits, so requests are spread evenly over the
/// products and the sink.
template <int most_lines>
struct Ahead {
  struct Line {
    const char* begin = nullptr;  // of the array, from this line of a strip on
    Index bytes = 0;              // of a value
  };
  Line lines[most_lines] = {};
  int count = 0;
  const Index* places = nullptr;  // start of each row's strip
  Index rows = 0, row = 0;
  int line = 0;
  std::uint32_t share = 0, due = 0;  // lines per call and lines due, in 65536ths

  template <class A>
  void add(const A* array, int array_lines) {
    for (int q = 0; q < array_lines; ++q)
      lines[count++] = {reinterpret_cast<const char*>(array + q * Strip<A>::line_values),
                        static_cast<Index>(sizeof(A))};
  }
  /// Requests the lines of `to` rows within `calls` calls.
  void begin(Index to, Index calls) {
    rows = to, row = 0, line = 0, due = 0;
    share = static_cast<std::uint32_t>(((to * count << 16) + calls - 1) / calls);
  }
  ROSSBY_INLINE void fetch() {
    due += share;
    if (due < 1U << 16 || line == count) return;
    due -= 1U << 16;
    fetch_ahead(lines[line].begin + places[row] * lines[line].bytes);
    if (++row == rows) row = 0, ++line;
  }
};

/// u (outputs, strip) += Gᵀ W of one tile: g (rows, width) at the first output, w (rows, strip), strips of
/// `vectors`. Calls `each` once per row.
template <int outputs, int vectors, class T, class Each>
ROSSBY_INLINE void transposed_product(T* u, const T* w, const T* g, Index width, Index rows,
                                      const Each& each) {
  using V = Vec<T, lanes<T>>;
  constexpr Index strip = vectors * lanes<T>;
  V acc[outputs][vectors];
  for (int o = 0; o < outputs; ++o)
    for (int q = 0; q < vectors; ++q) acc[o][q] = load<V>(u + o * strip + q * lanes<T>);
  for (Index i = 0; i < rows; ++i) {
    each();
    V wi[vectors];
    for (int q = 0; q < vectors; ++q) wi[q] = load<V>(w + i * strip + q * lanes<T>);
    for (int o = 0; o < outputs; ++o) {
      const V gi = splat<V>(g[i * width + o]);
      for (int q = 0; q < vectors; ++q) acc[o][q] += gi * wi[q];
    }
  }
  for (int o = 0; o < outputs; ++o)
    for (int q = 0; q < vectors; ++q) store(u + o * strip + q * lanes<T>, acc[o][q]);
}

/// d (block, strip) = G zᵀ: g (block, width) and z (width, strip). Calls `each` once per value of the width.
template <int block, int vectors, class T, class Each>
ROSSBY_INLINE void outer_product(T* d, const T* g, const T* z, Index width, const Each& each) {
  using V = Vec<T, lanes<T>>;
  constexpr Index strip = vectors * lanes<T>;
  V acc[block][vectors] = {};
  for (Index o = 0; o < width; ++o) {
    each();
    V zo[vectors];
    for (int q = 0; q < vectors; ++q) zo[q] = load<V>(z + o * strip + q * lanes<T>);
    for (int r = 0; r < block; ++r) {
      const V gr = splat<V>(g[r * width + o]);
      for (int q = 0; q < vectors; ++q) acc[r][q] += gr * zo[q];
    }
  }
  for (int r = 0; r < block; ++r)
    for (int q = 0; q < vectors; ++q) store(d + r * strip + q * lanes<T>, acc[r][q]);
}

/// The strips of rows to prefetch while each row of a strip is computed.
template <Index most_rows, Index strip>
struct NextTile {
  Index place[most_rows + dense_row_padding];  // any place for rows that do not exist
  Index row = 0, column = 0;

  void begin(Index first) { row = first, column = 0; }

  /// Selects the next strips of the next tile, row after row: memory delivers long runs sooner.
  ROSSBY_INLINE void hand_out(Index rows, Index strips, Index stride) {
    for (Index r = 0; r < rows; ++r) {
      place[r] = row + column * strip;
      if (++column < strips) continue;
      column = 0;
      row += stride;
    }
  }

  /// Selects one strip of as many rows.
  ROSSBY_INLINE void strip_of(Index rows, Index first, Index stride) {
    for (Index r = 0; r < rows; ++r) place[r] = first + r * stride;
  }
};

template <DenseSink sink, class S>
struct BackwardTile {
  using T = Arithmetic<S>;
  /// Rows that go through a strip together. In measurements fewer rows (longer runs of W) were faster unless
  /// u and z were read too often; benchmarks/measured has the figures. Processors with a large cache follow
  /// some 32 runs at once, which limits three arrays to 8 rows.
  static constexpr Index most_rows = 64;
  static constexpr Index narrow_rows = 8;
  static constexpr Index narrow_width = 24;
  static constexpr Index narrow_width_large = 192;
  static constexpr Index middle_rows = 16;
  static constexpr Index middle_width = 128;
  /// The next tile is prefetched row by row at these widths: with three arrays, and, if the cache is
  /// large, larger widths and some with two arrays. Otherwise a strip at a time is as fast or faster.
  static constexpr Index row_width = 24;
  static constexpr Index most_row_width = 32;
  static constexpr Index row_width_of_two = 48;
  static constexpr Index most_row_width_of_two = 64;
  static constexpr Index strip = Strip<S>::columns;
  static constexpr int vectors = Strip<S>::vectors;
  static constexpr int block = Strip<S>::block;
  static_assert(dense_row_padding % block == 0);
  DenseBackward<S>& b;
  Sink<sink, S> out;
  alignas(64) T effective[most_rows * strip];
  alignas(64) T gradient[block * strip];
  double squares[most_rows / block] = {};  // per block of rows: the sum does not depend on the tiles
  bool between = false;                    // prefetches are spread evenly, instead of at the place of use
  NextTile<most_rows, strip> next = {};

  /// Lines per row of a strip in all arrays that a pass reads.
  static constexpr int arrays = sink == DenseSink::none ? 1 : sink == DenseSink::adam_moment ? 3 : 2;
  static constexpr int first_lines = Strip<S>::lines;  // of W
  static constexpr int second_lines = sink == DenseSink::accumulate ? Strip<T>::lines : Strip<S>::lines;
  static constexpr int other_lines = (arrays > 1 ? second_lines : 0) + (arrays > 2 ? Strip<S>::lines : 0);
  static constexpr Index between_width = 16;  // enough products to spread lines over
  Ahead<first_lines + other_lines> ahead = {};

  /// Calls of `ahead` per row in the sink: more if there are few products, none if the sink is short.
  [[nodiscard]] Index sink_calls() const {
    constexpr Index few = 24;
    if (sink == DenseSink::accumulate) return 0;
    return b.width < few ? 6 : 3;
  }
  /// The same for `rows` rows of a strip.
  [[nodiscard]] Index calls_a_strip(Index rows) const {
    Index calls = b.width / block * rows;
    if (sink != DenseSink::none) calls += (rows + block - 1) / block * b.width + sink_calls() * rows;
    return calls;
  }

  static ROSSBY_INLINE void nothing() {}

  ROSSBY_INLINE void add_u(Index begin, Index rows, Index s, Index count) {
    for (Index r = 0; r < rows; ++r) {
      const Index at = (begin + r) * b.stride + s * strip;
      if constexpr (sink == DenseSink::none)
        if (out.fetch)
          for (int q = 0; q < first_lines; ++q)
            fetch_ahead(b.weight + next.place[r] + q * Strip<S>::line_values);
      const S* weight = b.weight + at;
      const std::uint8_t* pattern = b.pattern ? b.pattern + at : nullptr;
      if (pattern) fetch_ahead(b.pattern + next.place[r]);
      if (count < strip) {
        pad(out.last.weight, weight, count, strip);
        weight = out.last.weight;
        if (pattern) {
          pad(out.last.pattern, pattern, count, strip);
          pattern = out.last.pattern;
        }
      }
      if (b.clamped)
        effective_strip<true>(effective + r * strip, weight, pattern);
      else
        effective_strip<false>(effective + r * strip, weight, pattern);
    }
    const T* g = b.g + begin * b.width;
    T* u = b.u + s * b.width * strip;
    Index o = 0;
    for (; o + block <= b.width; o += block)
      transposed_product<block, vectors>(u + o * strip, effective, g + o, b.width, rows,
                                         [&]() ROSSBY_LAMBDA_INLINE { ahead.fetch(); });
    if constexpr (block > 4)
      for (; o + 4 <= b.width; o += 4)
        transposed_product<4, vectors>(u + o * strip, effective, g + o, b.width, rows, nothing);
    for (; o + 2 <= b.width; o += 2)
      transposed_product<2, vectors>(u + o * strip, effective, g + o, b.width, rows, nothing);
    for (; o < b.width; ++o)
      transposed_product<1, vectors>(u + o * strip, effective, g + o, b.width, rows, nothing);
  }

  ROSSBY_INLINE void pass_gradient(Index begin, Index rows, Index s, Index count) {
    const T* z = b.z + s * b.width * strip;
    for (Index r = 0; r < rows; r += block) {
      const T* g = b.g + (begin + r) * b.width;
      const Index calls = between ? sink_calls() : 0;
      const Index there = rows - r < block ? rows - r : block;
      outer_product<block, vectors>(gradient, g, z, b.width, [&]() ROSSBY_LAMBDA_INLINE { ahead.fetch(); });
      out.strip_rows(gradient, begin + r, there, s * strip, count, next.place + r,
                     [&]() ROSSBY_LAMBDA_INLINE {
                       for (Index k = 0; k < calls; ++k) ahead.fetch();
                     });
      squares[r / block] += out.finish();
    }
  }

  /// Start of the strip that is `tiles` tiles of `tile_size` values and `strips_ahead` strips after strip s.
  static ROSSBY_INLINE Index strip_after(Index s, Index strips, Index tiles, Index strips_ahead,
                                         Index tile_size) {
    const Index then = s + strips_ahead;
    return then < strips ? tiles * tile_size + then * strip
                         : (tiles + 1) * tile_size + (then - strips) * strip;
  }

  void run() {
    const bool large = arrays > 1 && b.large_cache;
    const Index narrow = arrays == 3 && large ? narrow_width_large : narrow_width;
    const Index tile_rows = b.width <= narrow         ? narrow_rows
                            : b.width <= middle_width ? middle_rows
                                                      : most_rows;
    const Index strips = (b.columns + strip - 1) / strip;
    between = b.u && b.width >= between_width;
    out.fetch = !between;
    constexpr Index row_lines = first_lines + other_lines;
    // In strips; with few columns they belong to later tiles.
    const Index distance = (dense_lines_ahead + tile_rows * row_lines - 1) / (tile_rows * row_lines);
    const Index tiles_ahead = distance / strips, strips_ahead = distance % strips;
    const bool in_rows = arrays == 3 ? b.width >= row_width && (b.width <= most_row_width || large)
                                     : sink == DenseSink::adam && large && between &&
                                           b.width >= row_width_of_two && b.width <= most_row_width_of_two;
    ahead.places = next.place;
    ahead.add(b.weight, first_lines);
    if (sink == DenseSink::accumulate) ahead.add(b.dm, other_lines);
    if (arrays > 1 && sink != DenseSink::accumulate) ahead.add(b.v, second_lines);
    if (arrays > 2) ahead.add(b.m, Strip<S>::lines);
    for (Index begin = 0; begin < b.rows; begin += tile_rows) {
      const Index rows = b.rows - begin < tile_rows ? b.rows - begin : tile_rows;
      out.begin_rows(begin, rows);
      if (in_rows) next.begin((begin + tile_rows) * b.stride);
      for (Index s = 0; s < strips; ++s) {
        const Index left = b.columns - s * strip;
        const Index count = left < strip ? left : strip;
        if (in_rows)
          next.hand_out(rows, strips, b.stride);
        else
          next.strip_of(
              rows,
              begin * b.stride + strip_after(s, strips, tiles_ahead, strips_ahead, tile_rows * b.stride),
              b.stride);
        if (between) ahead.begin(rows, calls_a_strip(rows));
        if (b.u) add_u(begin, rows, s, count);
        if constexpr (sink != DenseSink::none) pass_gradient(begin, rows, s, count);
      }
      for (Index r = 0; r < rows; r += block) {
        b.squares += squares[r / block];
        squares[r / block] = 0;
      }
    }
  }
};

template <DenseSink sink, class S>
void backward(DenseBackward<S>& b) {
  const FlushSubnormals flush;  // as in the separate update
  BackwardTile<sink, S> tile{b, {b}, {}, {}};
  if (b.adam) tile.out.adam = *b.adam;
  tile.run();
}

}  // namespace rossby::cpu::ROSSBY_ISA
