#pragma once

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_lane.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dense_tile.hpp"
#include "rossby/kernels/cpu/simd/shuffle.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// The sink of the gradients of a strip of weights.
template <DenseSink sink, class S>
struct Sink {
  using T = Arithmetic<S>;
  using V = Vec<T, lanes<T>>;
  static constexpr bool adam_too = sink != DenseSink::accumulate, with_m = sink == DenseSink::adam_moment;
  static constexpr Index strip = Strip<S>::columns;
  DenseBackward<S>& b;
  AdamConstants<T> adam = {};
  bool fetch = true;  // prefetch the data at `ahead` here
  V squares = {};
  static constexpr Index most_keyed = 64;
  Index keyed = 0;                      // bf16: first of the rows whose
  std::uint32_t keys[most_keyed] = {};  // random bits are stored here
  struct {
    S weight[strip], v[strip], m[strip];
    T dm[strip];
    std::uint8_t pattern[strip];
  } last = {};  // copies of a row's last strip, padded with zeros

  /// Call before any of these rows; there are at most most_keyed.
  ROSSBY_INLINE void begin_rows(Index first, Index rows) {
    if constexpr (Strip<S>::paired && adam_too) {
      keyed = first;
      for (Index r = 0; r < rows; ++r) keys[r] = b.rounding.row(b.relation, first + r);
    }
  }

  /// The part of a gradient that passes at weight `theta`.
  ROSSBY_INLINE V passing(V gradient, V theta) const {
    const V sum = gradient + b.l1;
    return b.clamped ? keep_inside01(sum, theta) : sum;
  }

  /// Strips of rows in the arrays that this sink uses.
  struct Place {
    S* weight;
    S* v;
    S* m;
    T* dm;
    const std::uint8_t* pattern;
    Index stride;
  };
  [[nodiscard]] ROSSBY_INLINE Place place(Index row, Index column) const {
    const Index at = row * b.stride + column;
    return {b.weight + at,
            adam_too ? b.v + at : nullptr,
            with_m ? b.m + at : nullptr,
            adam_too ? nullptr : b.dm + at,
            b.pattern ? b.pattern + at : nullptr,
            b.stride};
  }
  [[nodiscard]] ROSSBY_INLINE Place copy_last(const Place& from, Index count) {
    pad(last.weight, from.weight, count, strip);
    if constexpr (adam_too) pad(last.v, from.v, count, strip);
    if constexpr (with_m) pad(last.m, from.m, count, strip);
    if constexpr (!adam_too) pad(last.dm, from.dm, count, strip);
    if (from.pattern)
      pad(last.pattern, from.pattern, count, strip);
    else
      for (Index l = 0; l < strip; ++l) last.pattern[l] = l < count;
    return {last.weight, last.v, last.m, last.dm, last.pattern, strip};
  }
  ROSSBY_INLINE void put_back_last(const Place& to, Index count) const {
    if constexpr (adam_too) pad(to.weight, last.weight, count, count);
    if constexpr (adam_too) pad(to.v, last.v, count, count);
    if constexpr (with_m) pad(to.m, last.m, count, count);
    if constexpr (!adam_too) pad(to.dm, last.dm, count, count);
  }

  /// A strip of `rows` rows; gradients (rows, strip) in the strip's order. Prefetches the data at `next`.
  template <int rows>
  ROSSBY_INLINE void pass(const T* gradient, const Place& at, Index row, Index column, const Index* next,
                          V& sum) {
    constexpr int per_row = Strip<S>::vectors, vectors = rows * per_row;
    V theta[vectors], passed[vectors], second[vectors], first[vectors];
#pragma GCC unroll 4
    for (int q = 0; q < vectors; ++q) {
      const int r = q / per_row, part = q % per_row;
      theta[q] = strip_vector<V>(at.weight + r * at.stride, part);
      passed[q] = passing(load<V>(gradient + q * lanes<T>), theta[q]);
      if (at.pattern) passed[q] = keep_flagged_in_strip<S>(passed[q], at.pattern + r * at.stride, part);
      sum += passed[q] * passed[q];
      if constexpr (adam_too) second[q] = strip_vector<V>(at.v + r * at.stride, part);
      first[q] = with_m ? strip_vector<V>(at.m + r * at.stride, part) : V{};
      if (!fetch || part >= Strip<S>::lines) continue;
      const Index to = next[r] + part * Strip<S>::line_values;
      fetch_ahead(b.weight + to);
      fetch_ahead(adam_too ? static_cast<const void*>(b.v + to) : b.dm + to);
      if constexpr (with_m) fetch_ahead(b.m + to);
    }
    if constexpr (adam_too)
      adam_lanes<vectors, with_m, true, true, Strip<S>::paired>(theta, first, second, passed, adam);
    if constexpr (adam_too && Strip<S>::paired) {
      using R = PairRounding;
      const R rounding(b.first_column + column);
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r) {
        const Index to = r * at.stride;
        const Words random = rounding.theta(keys[row + r - keyed]);
        R::store(at.weight + to, theta[2 * r], theta[2 * r + 1], random);
        R::store(at.v + to, second[2 * r], second[2 * r + 1], R::v(random));
        if constexpr (with_m) R::store(at.m + to, first[2 * r], first[2 * r + 1], R::m(random));
      }
    } else if constexpr (adam_too) {
#pragma GCC unroll 3
      for (int q = 0; q < vectors; ++q) {
        store(at.weight + q * lanes<T>, theta[q]);
        store(at.v + q * lanes<T>, second[q]);
        if constexpr (with_m) store(at.m + q * lanes<T>, first[q]);
      }
    } else {
#pragma GCC unroll 4
      for (int q = 0; q < vectors; ++q) {
        T* to = at.dm + q / per_row * at.stride;
        if constexpr (Strip<S>::paired) {
          T values[lanes<T>];
          store(values, passed[q]);
          for (int l = 0; l < lanes<T>; ++l) to[2 * l + q % 2] += values[l];
        } else {
          store(to + q * lanes<T>, load<V>(to + q * lanes<T>) + passed[q]);
        }
      }
    }
  }

  /// `rows` rows of a strip: `count` columns from `column`; gradients (rows, strip) in the strip's order.
  /// Calls `each` once per row.
  template <class Each>
  ROSSBY_INLINE void strip_rows(const T* gradient, Index row, Index rows, Index column, Index count,
                                const Index* next, const Each& each) {
    V sum = squares;  // a local, because the compiler must assume that stores change the member
    Index r = 0;
    if constexpr (Strip<S>::paired)
      for (; r + 2 <= rows && count >= strip; r += 2) {
        each();
        each();
        pass<2>(gradient + r * strip, place(row + r, column), row + r, column, next + r, sum);
      }
    for (; r < rows; ++r) {
      each();
      const Place whole = place(row + r, column);
      const Place at = count < strip ? copy_last(whole, count) : whole;
      pass<1>(gradient + r * strip, at, row + r, column, next + r, sum);
      if (count < strip) put_back_last(whole, count);
    }
    squares = sum;
  }

  /// One row whose gradients are in order. bf16 rows replace NaN by one that stays NaN when rounded.
  ROSSBY_INLINE void ordered_row(const T* gradient, Index row, Index column, Index count) {
    const Index next = row * b.stride + column + b.ahead;
    if (b.ahead > 0)
      for (Index k = 0; k < strip; k += 64 / static_cast<Index>(sizeof(T)))
        fetch_ahead(gradient + b.ahead + k);
    T padded[strip], ordered[strip];
    if (count < strip) {
      pad(padded, gradient, count, strip);
      gradient = padded;
    }
    if constexpr (Strip<S>::paired) {
      const V low = load<V>(gradient), high = load<V>(gradient + lanes<T>);
      store(ordered, canonical(every_second<0>(low, high)));
      store(ordered + lanes<T>, canonical(every_second<1>(low, high)));
      gradient = ordered;
    }
    strip_rows(gradient, row, 1, column, count, &next, [] {});
  }

  /// Σ gradient² since the last call.
  [[nodiscard]] double finish() {
    const auto sum = static_cast<double>(sum_of_lanes<T, lanes<T>>(squares));
    squares = V{};
    return sum;
  }
};

/// The sink alone, for gradients made by another kernel.
template <DenseSink sink, class S>
void sink_rows(DenseBackward<S>& b, const Arithmetic<S>* gradient, Index gradient_stride) {
  if constexpr (sink != DenseSink::none) {
    const FlushSubnormals flush;
    Sink<sink, S> out{b};
    if (b.adam) out.adam = *b.adam;
    for (Index i = 0; i < b.rows; ++i) {
      out.begin_rows(i, 1);
      for (Index j = 0; j < b.columns; j += Strip<S>::columns)
        out.ordered_row(gradient + i * gradient_stride + j, i, j, b.columns - j);
      b.squares += out.finish();
    }
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
