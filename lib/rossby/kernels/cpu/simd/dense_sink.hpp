#pragma once

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_lane.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dense_tile.hpp"
#include "rossby/kernels/cpu/simd/shuffle.hpp"

namespace rossby::cpu::ROSSBY_ISA {

/// The sink of the gradients of a strip of weights. `plain`: there is no decay of either kind.
template <DenseSink sink, class S, bool plain = false>
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

  /// `vectors` of a row, the last with `count` values, from column `column` on; prefetches the data at
  /// `next`.
  template <int vectors>
  ROSSBY_INLINE void pass(const T* gradient, Index row, Index column, Index count, Index next, V& sum) {
    const Index at = row * b.stride + column;
    V theta[vectors], passed[vectors], second[vectors], first[vectors];
#pragma GCC unroll 3
    for (int q = 0; q < vectors; ++q) {
      const Index k = at + q * lanes<T>;
      theta[q] = load_part<V>(b.weight + k, count);
      passed[q] = passing(load_part<V>(gradient + q * lanes<T>, count), theta[q]);
      if (b.pattern) passed[q] = keep_flagged(passed[q], b.pattern + k, count);
      sum += passed[q] * passed[q];
      second[q] = load_part<V>((adam_too ? b.v : b.dm) + k, count);
      first[q] = with_m ? load_part<V>(b.m + k, count) : V{};
      if (!fetch) continue;
      const Index to = next + q * lanes<T>;
      fetch_ahead(b.weight + to);
      fetch_ahead((adam_too ? b.v : b.dm) + to);
      if constexpr (with_m) fetch_ahead(b.m + to);
    }
    if constexpr (adam_too)
      adam_lanes<vectors, with_m, !plain, true, false, !plain>(theta, first, second, passed, adam);
#pragma GCC unroll 3
    for (int q = 0; q < vectors; ++q) {
      const Index k = at + q * lanes<T>;
      if constexpr (adam_too) {
        store_part(b.weight + k, theta[q], count);
        store_part(b.v + k, second[q], count);
        if constexpr (with_m) store_part(b.m + k, first[q], count);
      } else {
        store_part(b.dm + k, second[q] + passed[q], count);
      }
    }
  }

  /// A strip of `rows` rows in bf16, of which `count` columns exist; gradients (rows, strip) in the strip's
  /// order.
  template <int rows>
  ROSSBY_INLINE void pass_pairs(const T* gradient, Index row, Index column, Index count, const Index* next,
                                V& sum) {
    constexpr int vectors = 2 * rows;
    V theta[vectors], passed[vectors], second[vectors], first[vectors];
#pragma GCC unroll 4
    for (int q = 0; q < vectors; ++q) {
      const Index at = (row + q / 2) * b.stride + column;
      theta[q] = strip_vector<V>(b.weight + at, q % 2, count);
      passed[q] = passing(load<V>(gradient + q * lanes<T>), theta[q]);
      if (b.pattern) passed[q] = keep_flagged_in_strip<S>(passed[q], b.pattern + at, q % 2, count);
      sum += passed[q] * passed[q];
      if constexpr (adam_too) second[q] = strip_vector<V>(b.v + at, q % 2, count);
      first[q] = with_m ? strip_vector<V>(b.m + at, q % 2, count) : V{};
      if (!fetch || q % 2) continue;
      const Index to = next[q / 2];
      fetch_ahead(b.weight + to);
      if constexpr (adam_too) fetch_ahead(b.v + to);
      if constexpr (with_m) fetch_ahead(b.m + to);
    }
    if constexpr (adam_too) {
      adam_lanes<vectors, with_m, !plain, true, true, !plain>(theta, first, second, passed, adam);
      const PairRounding rounding(b.first_column + column);
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r) {
        const Index at = (row + r) * b.stride + column;
        const Words random = rounding.theta(keys[row + r - keyed]);
        using R = PairRounding;
        R::store(b.weight + at, theta[2 * r], theta[2 * r + 1], random, count);
        R::store(b.v + at, second[2 * r], second[2 * r + 1], R::v(random), count);
        if constexpr (with_m) R::store(b.m + at, first[2 * r], first[2 * r + 1], R::m(random), count);
      }
    } else {
      for (int q = 0; q < vectors; ++q)
        for (Index l = 0; l < lanes<T> && 2 * l + q % 2 < count; ++l)
          b.dm[(row + q / 2) * b.stride + column + 2 * l + q % 2] += passed[q][l];
    }
  }

  /// `rows` rows of a strip: `count` columns from `column`; gradients (rows, strip) in the strip's order.
  /// Calls `each` once per row.
  template <class Each>
  ROSSBY_INLINE void strip_rows(const T* gradient, Index row, Index rows, Index column, Index count,
                                const Index* next, const Each& each) {
    V sum = squares;  // a local, because the compiler must assume that stores change the member
    if constexpr (Strip<S>::paired) {
      // The length is known here: no load or store tests it again.
      if (count < strip) {
        for (Index r = 0; r < rows; ++r) {
          each();
          pass_pairs<1>(gradient + r * strip, row + r, column, count, next + r, sum);
        }
      } else {
        Index r = 0;
        for (; r + 2 <= rows; r += 2) {
          each();
          each();
          pass_pairs<2>(gradient + r * strip, row + r, column, strip, next + r, sum);
        }
        if (r < rows) pass_pairs<1>(gradient + r * strip, row + r, column, strip, next + r, sum);
      }
    } else {
      for (Index r = 0; r < rows; ++r, gradient += strip) {
        each();
        if (count >= strip)
          pass<strip_vectors>(gradient, row + r, column, lanes<T>, next[r], sum);
        else
          for (Index j = 0; j < count; j += lanes<T>)
            pass<1>(gradient + j, row + r, column + j, count - j, next[r] + j, sum);
      }
    }
    squares = sum;
  }

  /// One row whose gradients are in order. bf16 rows replace NaN by one that stays NaN when rounded.
  ROSSBY_INLINE void ordered_row(const T* gradient, Index row, Index column, Index count) {
    const Index next = row * b.stride + column + b.ahead;
    if (b.ahead > 0)
      for (Index k = 0; k < strip; k += 64 / static_cast<Index>(sizeof(T)))
        fetch_ahead(gradient + b.ahead + k);
    if constexpr (Strip<S>::paired) {
      T ordered[strip] = {};
      if (count >= strip) {
        const V low = load<V>(gradient), high = load<V>(gradient + lanes<T>);
        store(ordered, canonical(every_second<0>(low, high)));
        store(ordered + lanes<T>, canonical(every_second<1>(low, high)));
      } else {
        for (Index j = 0; j < count; ++j)
          ordered[j % 2 * lanes<T> + j / 2] =
              gradient[j] == gradient[j] ? gradient[j] : T(__builtin_nanf(""));
      }
      strip_rows(ordered, row, 1, column, count, &next, [] {});
    } else {
      strip_rows(gradient, row, 1, column, count, &next, [] {});
    }
  }

  /// Σ gradient² since the last call.
  [[nodiscard]] double finish() {
    const auto sum = static_cast<double>(sum_of_lanes<T, lanes<T>>(squares));
    squares = V{};
    return sum;
  }
};

template <DenseSink sink, class S, bool plain>
void run_sink(DenseBackward<S>& b, const Arithmetic<S>* gradient, Index gradient_stride) {
  const FlushSubnormals flush;
  Sink<sink, S, plain> out{b};
  if (b.adam) out.adam = *b.adam;
  for (Index i = 0; i < b.rows; ++i) {
    out.begin_rows(i, 1);
    for (Index j = 0; j < b.columns; j += Strip<S>::columns)
      out.ordered_row(gradient + i * gradient_stride + j, i, j, b.columns - j);
    b.squares += out.finish();
  }
}

/// The sink alone, for gradients made by another kernel.
template <DenseSink sink, class S>
void sink_rows(DenseBackward<S>& b, const Arithmetic<S>* gradient, Index gradient_stride) {
  if constexpr (sink == DenseSink::adam || sink == DenseSink::adam_moment)
    if (b.adam->decay == 0 && b.adam->keep == 1) return run_sink<sink, S, true>(b, gradient, gradient_stride);
  if constexpr (sink != DenseSink::none) run_sink<sink, S, false>(b, gradient, gradient_stride);
}

}  // namespace rossby::cpu::ROSSBY_ISA
