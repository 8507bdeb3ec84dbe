#pragma once

#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dense_tile.hpp"

namespace rossby::cpu::ROSSBY_ISA {

// Narrow: lanes lie along the columns of W, so a row of W meets `width` rows of the transposed z without a
// broadcast. Partial sums stay vectors until all columns are done.

/// What becomes of stored weights: kinds of a loop. `flagged` ones are also clamped if the relation is.
enum class Weights { stored, clamped, flagged };

template <class S>
struct NarrowTile {
  using T = Arithmetic<S>;
  using V = Vec<T, lanes<T>>;
  static constexpr Index strip = Strip<S>::columns;
  DenseForward<S>& f;
  V sums[dense_forward_rows * lanes<T>] = {};  // (rows, width)
  double weight_sums[dense_forward_rows / dense_sum_rows] = {};

  /// Prefetches `distance` strips ahead, while groups of mr rows follow each other over strips [first, last).
  struct AheadOfGroup {
    const S* at;    // of the group's first strip
    Index turn;     // strip at which it continues with the next rows
    Index further;  // by this much
  };
  template <int mr>
  ROSSBY_INLINE AheadOfGroup ahead_of(Index row, Index first, Index last) const {
    const Index run = last - first, distance = dense_lines_ahead / (mr * Strip<S>::lines);
    const Index next_block = last * strip < f.columns ? run * strip : -first * strip;
    const auto group = [&](Index r) {
      return r < f.rows ? r * f.stride : (r - f.rows) * f.stride + next_block;
    };
    const Index here = group(row + distance / run * mr), then = group(row + (distance / run + 1) * mr);
    const Index offset = distance % run;
    return {f.weight + here + (first + offset) * strip, last - offset, then - here - run * strip};
  }

  /// A vector of effective weights of a strip.
  template <Weights kind>
  ROSSBY_INLINE V effective(const S* weight, const std::uint8_t* pattern, int part) const {
    V w = strip_vector<V>(weight, part);
    if (kind == Weights::clamped || (kind == Weights::flagged && f.clamped)) w = clamp01(w);
    if constexpr (kind == Weights::flagged) w = keep_flagged_in_strip<S>(w, pattern, part);
    return w;
  }

  /// `mr` rows from `row` against outputs [o, o + outputs) over strips [first, last).
  template <int mr, int outputs, Weights kind>
  ROSSBY_INLINE void group(Index row, Index o, Index first, Index last) {
    constexpr bool flagged = kind == Weights::flagged;
    const AheadOfGroup next = ahead_of<mr>(row, first, last);
    const S* ahead = next.at;
    V acc[mr][outputs];
    V total = {}, part_sum = {};  // in two levels: long sums of equal floats drift
    for (int r = 0; r < mr; ++r)
      for (int q = 0; q < outputs; ++q) acc[r][q] = sums[(row + r) * f.width + o + q];
    const auto step = [&](const V(&w)[mr], const T* z) ROSSBY_LAMBDA_INLINE {
      V all = w[0];  // separate from the running sum, which each would wait for
      for (int r = 1; r < mr; ++r) all += w[r];
      part_sum += all;
      for (int q = 0; q < outputs; ++q) {
        const V zq = held(load<V>(z + q * strip));
        for (int r = 0; r < mr; ++r) acc[r][q] += w[r] * zq;
      }
    };
    const Index whole = last * strip <= f.columns ? last : last - 1;
    const S* weight = f.weight + row * f.stride + first * strip;
    const std::uint8_t* pattern = flagged ? f.pattern + row * f.stride + first * strip : nullptr;
    const T* z = f.z + (first * f.width + o) * strip;
    for (Index s = first; s < whole; ++s) {
      if (s == next.turn) ahead += next.further;
#pragma GCC unroll 3
      for (int part = 0; part < Strip<S>::vectors; ++part) {
        V w[mr];
        for (int r = 0; r < mr; ++r) {
          w[r] = effective<kind>(weight + r * f.stride, flagged ? pattern + r * f.stride : nullptr, part);
          if (part < Strip<S>::lines) fetch_ahead(ahead + r * f.stride + part * lanes<T>);
          if (flagged && part == 0) fetch_ahead(f.pattern + (ahead - f.weight) + r * f.stride);
        }
        step(w, z + part * lanes<T>);
      }
      total += part_sum;
      part_sum = V{};
      ahead += strip, weight += strip, z += f.width * strip;
      if (flagged) pattern += strip;
    }
    if (whole < last) {
      S weights[mr * strip];
      std::uint8_t flags[mr * strip];
      for (int r = 0; r < mr; ++r) {
        pad(weights + r * strip, weight + r * f.stride, f.columns - whole * strip, strip);
        if (flagged) pad(flags + r * strip, pattern + r * f.stride, f.columns - whole * strip, strip);
      }
      for (int part = 0; part < Strip<S>::vectors; ++part) {
        V w[mr];
        for (int r = 0; r < mr; ++r) w[r] = effective<kind>(weights + r * strip, flags + r * strip, part);
        step(w, z + part * lanes<T>);
      }
    }
    for (int r = 0; r < mr; ++r)
      for (int q = 0; q < outputs; ++q) sums[(row + r) * f.width + o + q] = acc[r][q];
    if (o == 0)
      weight_sums[row / dense_sum_rows] += static_cast<double>(sum_of_lanes<T, lanes<T>>(total + part_sum));
  }

  template <int outputs, Weights kind>
  void rows(Index o, Index first, Index last) {
    constexpr int most = accumulators / outputs;
    constexpr int mr = most > 8 ? 8 : most;
    static_assert(dense_sum_rows % mr == 0);
    Index row = 0;
    for (; row + mr <= f.rows; row += mr) group<mr, outputs, kind>(row, o, first, last);
    for (; row < f.rows; ++row) group<1, outputs, kind>(row, o, first, last);
  }

  template <Weights kind>
  void run() {
    // z of a block of strips stays in the first-level cache while all rows pass.
    constexpr Index cache_values = 16384 / sizeof(T);
    const Index strips = (f.columns + strip - 1) / strip;
    const Index fitting = cache_values / (f.width * strip);
    const Index block = fitting > 0 ? fitting : 1;
    for (Index first = 0; first < strips; first += block) {
      const Index last = first + block < strips ? first + block : strips;
      Index o = 0;
      if constexpr (accumulators >= 24)
        for (; o + 8 <= f.width; o += 8) rows<8, kind>(o, first, last);
      for (; o + 4 <= f.width; o += 4) rows<4, kind>(o, first, last);
      for (; o + 2 <= f.width; o += 2) rows<2, kind>(o, first, last);
      for (; o < f.width; ++o) rows<1, kind>(o, first, last);
    }
    for (Index e = 0; e < f.rows * f.width; ++e) f.context[e] = sum_of_lanes<T, lanes<T>>(sums[e]);
    for (const double sum : weight_sums) f.weight_sum += sum;
  }
};

template <class S>
void forward_narrow(DenseForward<S>& f) {
  NarrowTile<S> tile{f};
  if (f.pattern)
    tile.template run<Weights::flagged>();
  else if (f.clamped)
    tile.template run<Weights::clamped>();
  else
    tile.template run<Weights::stored>();
}

// Wide: lanes lie along the `width` values of a node, so a value of W is broadcast. The clamped block of W
// lies in the first-level cache and is read once per register block of outputs.

template <class S>
struct WideTile {
  using T = Arithmetic<S>;
  using V = Vec<T, lanes<T>>;
  static constexpr Index block_columns = 128;             // memory delivers long runs of few rows best
  static constexpr Index block_rows = dense_sum_rows;     // a multiple of every register block's rows
  static constexpr Index tile_rows = dense_forward_rows;  // rows that share the z of a block of columns
  static_assert(tile_rows % block_rows == 0);
  DenseForward<S>& f;
  Index padded;  // width rounded up to lanes
  alignas(64) T block[block_rows * block_columns];
  alignas(64) T sums[tile_rows * 16 * lanes<T>];
  double weight_sums[tile_rows / block_rows] = {};

  template <int vectors>
  ROSSBY_INLINE void product(Index rows, Index count, const T* z, T* to, Index part, const S* ahead) const {
    constexpr int most = accumulators / vectors;
    constexpr int mr = most > 12 ? 12 : most;
    for (Index row = 0; row < rows; row += mr) {
      V acc[mr][vectors];
      for (int r = 0; r < mr; ++r)
        for (int q = 0; q < vectors; ++q) acc[r][q] = load<V>(to + (row + r) * part + q * lanes<T>);
      const T* w = block + row * block_columns;
      for (Index begin = 0; begin < count; begin += lanes<T>) {
        // Prefetches the next block's weights a few at a time between products: a burst would stall them.
        if (begin % Strip<S>::line_values == 0)
          for (int r = 0; r < mr; ++r) fetch_ahead(ahead + (row + r) * f.stride + begin);
        const Index end = count - begin < lanes<T> ? count : begin + lanes<T>;
        for (Index j = begin; j < end; ++j) {
          V zj[vectors];
          for (int q = 0; q < vectors; ++q) zj[q] = load<V>(z + j * padded + q * lanes<T>);
          for (int r = 0; r < mr; ++r) {
            const V wj = splat<V>(w[r * block_columns + j]);
            for (int q = 0; q < vectors; ++q) acc[r][q] += wj * zj[q];
          }
        }
      }
      for (int r = 0; r < mr; ++r)
        for (int q = 0; q < vectors; ++q) store(to + (row + r) * part + q * lanes<T>, acc[r][q]);
    }
  }

  ROSSBY_INLINE void fill(Index begin, Index rows, Index first, Index count, double* weight_sum) {
    const Index whole = (count + lanes<T> - 1) / lanes<T> * lanes<T>;
    V sum = {};
    for (Index r = 0; r < block_rows; ++r) {
      T* out = block + r * block_columns;
      if (r >= rows) {
        for (Index j = 0; j < block_columns; ++j) out[j] = 0;
        continue;
      }
      const Index at = (begin + r) * f.stride + first;
      const std::uint8_t* pattern = f.pattern ? f.pattern + at : nullptr;
      if (f.clamped)
        effective_row<true>(out, f.weight + at, pattern, count, whole);
      else
        effective_row<false>(out, f.weight + at, pattern, count, whole);
      for (Index j = 0; j < whole; j += lanes<T>) sum += load<V>(out + j);
    }
    if (weight_sum) *weight_sum += static_cast<double>(sum_of_lanes<T, lanes<T>>(sum));
  }

  /// sums (tile_rows, part) = W z over `part` values of every node, from value `e` on.
  void run(Index e, Index part) {
    for (Index at = 0; at < tile_rows * part; ++at) sums[at] = 0;
    for (Index first = 0; first < f.columns; first += block_columns) {
      const Index count = f.columns - first < block_columns ? f.columns - first : block_columns;
      for (Index row = 0; row < f.rows; row += block_rows) {
        const Index here = f.rows - row < block_rows ? f.rows - row : block_rows;
        fill(row, here, first, count, e == 0 ? weight_sums + row / block_rows : nullptr);
        const T* z = f.z + first * padded + e;
        const S* ahead = f.weight + row * f.stride + first + block_columns;
        T* to = sums + row * part;
        Index left = part / lanes<T>;
        for (; left >= 4; left -= 4, z += 4 * lanes<T>, to += 4 * lanes<T>)
          product<4>(here, count, z, to, part, ahead);
        if (left == 3) product<3>(here, count, z, to, part, ahead);
        if (left == 2) product<2>(here, count, z, to, part, ahead);
        if (left == 1) product<1>(here, count, z, to, part, ahead);
      }
    }
  }
};

template <class S>
void forward_wide(DenseForward<S>& f) {
  using T = Arithmetic<S>;
  constexpr Index most = 16 * lanes<T>;  // values of z at a time
  const Index padded = (f.width + lanes<T> - 1) / lanes<T> * lanes<T>;
  WideTile<S> tile{f, padded, {}, {}, {}};
  for (Index e = 0; e < padded; e += most) {
    const Index part = padded - e < most ? padded - e : most;
    tile.run(e, part);
    const Index kept = f.width - e < part ? f.width - e : part;
    for (Index r = 0; r < f.rows; ++r)
      __builtin_memcpy(f.context + r * f.width + e, tile.sums + r * part,
                       static_cast<unsigned long>(kept) * sizeof(T));
  }
  for (const double sum : tile.weight_sums) f.weight_sum += sum;
}

}  // namespace rossby::cpu::ROSSBY_ISA
