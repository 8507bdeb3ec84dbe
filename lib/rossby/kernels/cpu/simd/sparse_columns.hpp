#pragma once

#include "rossby/kernels/cpu/simd/runs.hpp"
#include "rossby/kernels/cpu/simd/shuffle.hpp"
#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/cpu/simd/sparse_weight.hpp"

// Sparse relations of layers with a few channels: a register holds several whole columns of a row. Entries of
// a list are added in registers. The sum then goes through its relation's weights input by input: a
// permutation puts the input of each column under all outputs of that column. No step in between uses memory,
// and any number of columns fills all registers but the last.

namespace rossby::cpu::ROSSBY_ISA {

/// Layout in registers of columns of `in` values, which become columns of `out` values.
struct ColumnStrips {
  Index together;           // columns per register
  Index in, out;            // values of a strip: together · channels
  Index strips;             // per row
  Index last_in, last_out;  // values of the last strip

  ColumnStrips(Index cols, Index d, Index w, Index lanes_of_register) {
    together = lanes_of_register / (d > w ? d : w);
    if (together > cols) together = cols > 0 ? cols : 1;
    in = together * d;
    out = together * w;
    strips = (cols + together - 1) / together;
    const Index rest = cols - (strips - 1) * together;
    last_in = rest * d;
    last_out = rest * w;
  }
};

#if defined(__AVX512VL__)
using SomeLanes = __mmask16;
ROSSBY_INLINE SomeLanes first_lanes(Index count) {
  return static_cast<__mmask16>((1U << count) - 1);
}
ROSSBY_INLINE Vec<float, 16> load_some(SomeLanes some, const float* from) {
  return (Vec<float, 16>)_mm512_maskz_loadu_ps(some, from);
}
ROSSBY_INLINE void store_some(SomeLanes some, float* to, Vec<float, 16> v) {
  if (some == 0xffff)
    store(to, v);
  else
    store_first(to, v, __builtin_popcount(some));
}
/// Moves lanes of v to the places where `from` has their number as an integer's bits.
ROSSBY_INLINE Vec<float, 16> permute(Vec<float, 16> v, Vec<float, 16> from) {
  return (Vec<float, 16>)_mm512_permutexvar_ps((__m512i)from, (__m512)v);
}
#elif defined(__AVX2__)
using SomeLanes = __m256i;
ROSSBY_INLINE SomeLanes first_lanes(Index count) {
  return first_of_eight(count);
}
ROSSBY_INLINE Vec<float, 8> load_some(SomeLanes some, const float* from) {
  return (Vec<float, 8>)_mm256_maskload_ps(from, some);
}
ROSSBY_INLINE void store_some(SomeLanes some, float* to, Vec<float, 8> v) {
  const int all = _mm256_movemask_ps((__m256)some);
  if (all == 0xff)
    store(to, v);
  else
    store_first(to, v, __builtin_popcount(static_cast<unsigned>(all)));
}
ROSSBY_INLINE Vec<float, 8> permute(Vec<float, 8> v, Vec<float, 8> from) {
  return (Vec<float, 8>)_mm256_permutevar8x32_ps((__m256)v, (__m256i)from);
}
#endif

/// The most channels of which a register holds two columns.
inline constexpr int most_channels = lanes<float> / 2;

/// True if one instruction permutes lanes of T. Doubles, used by parity runs, are not worth the compile time.
template <class T>
inline constexpr bool permutes = sizeof(T) == 4 && register_bytes > 16;

/// True if this way is the fastest. It is not if two columns fill a register and entries can go through their
/// weights one by one (sparse_direct.hpp), or with one column of more than four channels.
template <class T>
ROSSBY_INLINE bool columns_side_by_side(const SparseLayer<T>& layer, bool direct) {
  const Index most = layer.d > layer.w ? layer.d : layer.w;
  if (!permutes<T> || most < 2 || most > most_channels) return false;
  if (most == most_channels && direct) return false;
  return layer.cols > 1 || most <= 4;
}

#if defined(__AVX2__)

/// Shared memory: the source lanes of a column's inputs and outputs, the bias under each output, and for each
/// plane the weights of an input under the outputs and of an output under the inputs.
template <class T>
struct SideBySide {
  static constexpr Index L = lanes<T>;
  ColumnStrips by;
  Index d, w, planes;

  explicit SideBySide(const SparseLayer<T>& layer)
      : by(layer.cols, layer.d, layer.w, L), d(layer.d), w(layer.w), planes(layer.planes()) {}
  [[nodiscard]] ROSSBY_INLINE Index inputs() const { return 0; }
  [[nodiscard]] ROSSBY_INLINE Index outputs() const { return d * L; }
  [[nodiscard]] ROSSBY_INLINE Index bias() const { return outputs() + w * L; }
  [[nodiscard]] ROSSBY_INLINE Index forward() const { return bias() + L; }
  [[nodiscard]] ROSSBY_INLINE Index backward() const { return forward() + planes * d * L; }
  [[nodiscard]] Index shared() const { return backward() + planes * w * L; }
  /// A group's memory: sums of each plane's gradient, output by output; then of the bias.
  [[nodiscard]] ROSSBY_INLINE Index bias_sums() const { return planes * w * L; }
  [[nodiscard]] Index group() const { return bias_sums() + L; }

  void prepare(const SparseLayer<T>& layer, T* shared) const {
    for (Index q = 0; q < this->shared(); ++q) shared[q] = T(0);
    const auto place = [&](Index at, Index lane, Index from) {
      const int index = static_cast<int>(from);
      __builtin_memcpy(shared + at + lane, &index, sizeof(index));
    };
    const Index self = layer.self ? 1 : 0;
    for (Index c = 0; c < by.together; ++c)
      for (Index o = 0; o < w; ++o)
        for (Index f = 0; f < d; ++f) {
          place(inputs() + f * L, c * w + o, c * d + f);
          place(outputs() + o * L, c * d + f, c * w + o);
          if (layer.bias) shared[bias() + c * w + o] = layer.bias[o];
          for (Index k = 0; k < planes; ++k) {
            const T a = k < self ? layer.self[o * layer.self_stride + f]
                                 : layer.a[o * layer.a_stride + (k - self) * d + f];
            shared[forward() + (k * d + f) * L + c * w + o] = a;
            shared[backward() + (k * w + o) * L + c * d + f] = a;
          }
        }
  }
  void collect(const SparseLayer<T>& layer, const T* group, T* da, Index da_stride, T* dself,
               Index dself_stride, T* dbias) const {
    const Index self = layer.self ? 1 : 0;
    for (Index k = 0; k < planes; ++k)
      for (Index o = 0; o < w; ++o) {
        T* to = k < self ? (dself ? dself + o * dself_stride : nullptr)
                         : (da ? da + o * da_stride + (k - self) * d : nullptr);
        const T* from = group + (k * w + o) * L;
        for (Index c = 0; to && c < by.together; ++c, from += d)
          for (Index f = 0; f < d; ++f) to[f] += from[f];
      }
    const T* from = group + bias_sums();
    for (Index c = 0; dbias && c < by.together; ++c, from += w)
      for (Index o = 0; o < w; ++o) dbias[o] += from[o];
  }
};

/// R strips of a row: their values, and the valid lanes of the last one.
template <class T, int R>
struct Strips {
  using V = Vec<T, lanes<T>>;
  SomeLanes all, last;
  Index apart;
  bool all_whole, last_whole;  // whole registers load faster than some of their lanes

  /// Strips of `count` values, the last of `last_count`.
  ROSSBY_INLINE Strips(Index count, Index last_count)
      : all(first_lanes(count)),
        last(first_lanes(last_count)),
        apart(count),
        all_whole(count == lanes<T>),
        last_whole(last_count == lanes<T>) {}

  ROSSBY_INLINE V load(const T* from, int r) const {
    from += r * apart;
    if (r + 1 < R ? all_whole : last_whole) return rossby::cpu::ROSSBY_ISA::load<V>(from);
    return load_some(r + 1 < R ? all : last, from);
  }
  ROSSBY_INLINE void store(T* to, V v, int r) const { store_some(r + 1 < R ? all : last, to + r * apart, v); }
};

/// Sums of R strips, separately for even and odd terms, because a sum waits for the one before it.
template <class T, int R>
struct StripSums {
  using V = Vec<T, lanes<T>>;
  V even[R], odd[R];

  ROSSBY_INLINE void clear() {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) even[r] = odd[r] = V{};
  }
  ROSSBY_INLINE void add(Index term, int r, V x, V a) {
    (term % 2 == 0 ? even : odd)[r] += x * a;
  }
  ROSSBY_INLINE V sum(int r) const {
    return even[r] + odd[r];
  }
};

/// Calls f(q) for q < count; D is the count if it is known at compile time, else 0.
template <int D, class F>
ROSSBY_INLINE void each_channel(Index count, const F& f) {
  if constexpr (D > 0) {
#pragma GCC unroll 8
    for (Index q = 0; q < D; ++q) f(q);
  } else {
    for (Index q = 0; q < count; ++q) f(q);
  }
}

/// Source lanes of each channel; in registers if D is known.
template <int D, class T>
struct LanePlaces {
  using V = Vec<T, lanes<T>>;
  V kept[D > 0 ? D : 1];
  const T* from;

  ROSSBY_INLINE explicit LanePlaces(const T* places) : from(places) {
    if constexpr (D > 0)
#pragma GCC unroll 8
      for (int q = 0; q < D; ++q) kept[q] = held(load<V>(places + q * lanes<T>));
  }
  ROSSBY_INLINE V put(V v, Index q) const {
    if constexpr (D > 0)
      return permute(v, kept[q]);
    else
      return permute(v, load<V>(from + q * lanes<T>));
  }
};

/// to[r] += Σ_q put(from[r], q) · weights_q
template <int D, class T, int R>
ROSSBY_INLINE void through(Index count, const LanePlaces<D, T>& places, const T* weights,
                           const Vec<T, lanes<T>>* from, StripSums<T, R>& to) {
  each_channel<D>(count, [&](Index q) {
    const auto a = held(load<Vec<T, lanes<T>>>(weights + q * lanes<T>));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) to.add(q, r, places.put(from[r], q), a);
  });
}

template <int D, int R, class T>
inline void forward_strips(const SideBySide<T> plan, const SparseLayer<T> layer, const SparseRows<T> rows,
                           const T* shared, Index strip) {
  using V = Vec<T, lanes<T>>;
  const ColumnStrips by = plan.by;
  const bool ends = strip + R == by.strips;
  const Strips<T, R> in(by.in, ends ? by.last_in : by.in);
  const Strips<T, R> out(by.out, ends ? by.last_out : by.out);
  const Index width = layer.cols * plan.d, plane = plan.d * plan.L;
  const T* owned = rows.owned + strip * by.in;
  const T* ghost = rows.ghost ? rows.ghost + strip * by.in - rows.owned_rows * width : nullptr;
  const LanePlaces<D, T> places(shared + plan.inputs());
  const V bias = load<V>(shared + plan.bias());
  for (Index row = 0; row < rows.count; ++row) {
    const Index i = rows.rows[row];
    const T* weights = shared + plan.forward();
    T* to = rows.h + i * layer.cols * plan.w + strip * by.out;
    V u[R];
    StripSums<T, R> h;
    h.clear();
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) h.even[r] = layer.self ? bias : out.load(to, r);
    if (layer.self) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) u[r] = in.load(owned + i * width, r);
      through(plan.d, places, weights, u, h);
      weights += plane;
    }
    const LocalEntry* list = layer.ptr + i * layer.relations;
    Index e = list[0];
    for (Index k = 0; k < layer.relations; ++k, weights += plane) {
      const Index end = list[k + 1];
      if (e == end) continue;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) u[r] = V{};
      for (; e < end; ++e) {
        const Index c = layer.column[e];
        const T* x = (c < rows.owned_rows ? owned : ghost) + c * width;
        const V weight = splat<V>(effective_weight(layer.weight[e], layer.clamped));
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) u[r] += weight * in.load(x, r);
      }
      through(plan.d, places, weights, u, h);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) out.store(to, h.sum(r), r);
  }
}

/// Strips of a row taken together, limited by the registers that the computation needs.
inline constexpr int strips_together = register_bytes == 64 ? 4 : 2;

/// Calls f<R>(first strip) over all strips.
template <class F>
ROSSBY_INLINE void each_strips(Index strips, const F& f) {
  Index strip = 0;
  if constexpr (strips_together > 2)
    for (; strip + 4 <= strips; strip += 4) f.template operator()<4>(strip);
  for (; strip + 2 <= strips; strip += 2) f.template operator()<2>(strip);
  if (strip < strips) f.template operator()<1>(strip);
}

/// Calls f<D>() with D = channels if in and out are equal and D is a compiled case; else D is 0.
template <class F>
ROSSBY_INLINE void with_channels(Index d, Index w, const F& f) {
  if (d == 2 && w == 2) return f.template operator()<2>();
  if (d == 3 && w == 3) return f.template operator()<3>();
  if (d == 4 && w == 4) return f.template operator()<4>();
  if constexpr (most_channels > 4) {
    if (d == 5 && w == 5) return f.template operator()<5>();
    if (d == 6 && w == 6) return f.template operator()<6>();
    if (d == 8 && w == 8) return f.template operator()<8>();
  }
  f.template operator()<0>();
}

/// Rows whose strips are all done before the next rows, so that memory is read from one end to the other: a
/// few rows, or all if one step takes all strips of a row.
template <class T>
ROSSBY_INLINE Index rows_a_block(const SideBySide<T>& plan, const SparseLayer<T>& layer, Index rows) {
  constexpr Index block_bytes = 2048;
  if (plan.by.strips <= strips_together) return rows > 0 ? rows : 1;
  const Index row_bytes = layer.cols * (plan.d + plan.w) * static_cast<Index>(sizeof(T));
  return row_bytes < block_bytes ? block_bytes / row_bytes : 1;
}

template <class T>
inline void forward_columns(const SparseLayer<T>& layer, const SparseRows<T>& rows, const T* shared) {
  const SideBySide<T> plan(layer);
  const Index block = rows_a_block(plan, layer, rows.count);
  with_channels(layer.d, layer.w, [&]<int D>() {
    for (Index begin = 0; begin < rows.count; begin += block) {
      SparseRows<T> some = rows;
      some.rows += begin;
      some.count = rows.count - begin < block ? rows.count - begin : block;
      each_strips(plan.by.strips,
                  [&]<int R>(Index strip) { forward_strips<D, R>(plan, layer, some, shared, strip); });
    }
  });
}

#endif

}  // namespace rossby::cpu::ROSSBY_ISA
