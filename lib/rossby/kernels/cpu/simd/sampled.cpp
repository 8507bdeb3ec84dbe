#include "rossby/kernels/cpu/simd/sampled.hpp"

#include "rossby/kernels/cpu/simd/runs.hpp"
#include "rossby/kernels/cpu/simd/transpose.hpp"

// For each channel's plane, forward is an inner product with a row's effective weights, and backward a
// multiple of them; up to eight planes at a time.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

template <class T>
using Reg = Vec<T, lanes<T>>;

/// Prefetch distance of latents in bytes: steps are too far apart for the processor to predict.
constexpr Index bytes_ahead = 4096;

/// Registers summed side by side, so that no addition waits for the one before.
constexpr int side_by_side = 4;

template <class T, int d>
ROSSBY_INLINE void transpose_block(const T* z, Index row_stride, T* planes, Index stride) {
  constexpr int L = lanes<T>;
  Reg<T> v[d];
  if (row_stride == d) {
    for (int q = 0; q < d; ++q)
      __builtin_prefetch(reinterpret_cast<const char*>(z + q * L) + bytes_ahead, 0, 2);
    for (int q = 0; q < d; ++q) v[q] = load<Reg<T>>(z + q * L);
  } else {
    T values[d * L];
    for (int l = 0; l < L; ++l) store(values + l * d, load<Vec<T, d>>(z + l * row_stride));
    for (int q = 0; q < d; ++q) v[q] = load<Reg<T>>(values + q * L);
  }
  separate<T, L, d>(v);
  for (int q = 0; q < d; ++q) store(planes + q * stride, v[q]);
}

template <class T, int d>
ROSSBY_INLINE void add_block(T* dz, Index row_stride, const T* planes, Index stride) {
  constexpr int L = lanes<T>;
  Reg<T> v[d];
  for (int q = 0; q < d; ++q) v[q] = load<Reg<T>>(planes + q * stride);
  interleave<T, L, d>(v);
  if (row_stride == d) {
    for (int q = 0; q < d; ++q)
      __builtin_prefetch(reinterpret_cast<const char*>(dz + q * L) + bytes_ahead, 1, 2);
    for (int q = 0; q < d; ++q) store(dz + q * L, load<Reg<T>>(dz + q * L) + v[q]);
    return;
  }
  T values[d * L];
  for (int q = 0; q < d; ++q) store(values + q * L, v[q]);
  for (int l = 0; l < L; ++l) {
    T* to = dz + l * row_stride;
    store(to, load<Vec<T, d>>(to) + load<Vec<T, d>>(values + l * d));
  }
}

/// Calls block.template operator()<d>(j) for the first column j of each register, if there are blocks of d
/// channels. Returns the number of columns that they cover.
template <class T, class Block>
ROSSBY_INLINE Index each_block(Index columns, Index d, const Block& block) {
  const Index covered = columns / lanes<T> * lanes<T>;
  const auto all = [&]<int channels> {
    for (Index j = 0; j < covered; j += lanes<T>) block.template operator()<channels>(j);
    return covered;
  };
  if (d == 1) return all.template operator()<1>();
  if (d == 2) return all.template operator()<2>();
  if (d == 4) return all.template operator()<4>();
  if (d == 8) return all.template operator()<8>();
  return 0;
}

template <class T>
void to_planes(Index columns, Index d, const T* z, Index row_stride, T* planes, Index stride) {
  const Index done = each_block<T>(columns, d, [&]<int channels>(Index j) {
    transpose_block<T, channels>(z + j * row_stride, row_stride, planes + j, stride);
  });
  for (Index f = 0; f < d; ++f) {
    T* plane = planes + f * stride;
    for (Index j = done; j < columns; ++j) plane[j] = z[j * row_stride + f];
    for (Index j = columns; j < stride; ++j) plane[j] = T(0);
  }
}

template <class T>
void add_planes(Index columns, Index d, T* dz, Index row_stride, const T* planes, Index stride) {
  const Index done = each_block<T>(columns, d, [&]<int channels>(Index j) {
    add_block<T, channels>(dz + j * row_stride, row_stride, planes + j, stride);
  });
  for (Index j = done; j < columns; ++j)
    for (Index f = 0; f < d; ++f) dz[j * row_stride + f] += planes[f * stride + j];
}

/// Effective weights of a register of columns, of which `count` exist; zeros after them. Prefetches those of
/// the next row.
template <class T>
ROSSBY_INLINE Reg<T> weights_at(const SampledRow<T>& r, Index j, Index count) {
  Reg<T> w;
  if (count >= lanes<T>) {
    if (r.next) __builtin_prefetch(r.next + j, 0, 2);
    w = load<Reg<T>>(r.weight + j);
  } else {
    w = load_first<Reg<T>>(r.weight + j, count < 0 ? 0 : count);
  }
  if (r.clamped) w = clamp01(w);
  if (!r.pattern) return w;
  T exists[lanes<T>];
  for (int l = 0; l < lanes<T>; ++l) exists[l] = l < count && r.pattern[j + l] ? T(1) : T(0);
  return load<Reg<T>>(exists) > Reg<T>{} ? w : Reg<T>{};
}

/// Channels first … first + F − 1.
template <class T, int F>
ROSSBY_INLINE void dots(const SampledRow<T>& r, Index first) {
  constexpr int U = F < side_by_side ? side_by_side / F : 1, L = lanes<T>;
  const T* z = r.z + first * r.stride;
  Reg<T> sum[F][U] = {};
  const auto step = [&](Index j, Index count) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) {
      const Reg<T> w = weights_at(r, j + u * L, count - u * L);
#pragma GCC unroll 8
      for (int f = 0; f < F; ++f)
        sum[f][u] = mul_add(w, load<Reg<T>>(z + f * r.stride + j + u * L), sum[f][u]);
    }
  };
  Index j = 0;
  for (; j + U * L <= r.columns; j += U * L) step(j, U * L);
  if (j < r.columns) step(j, r.columns - j);
  for (int f = 0; f < F; ++f) {
    for (int u = 1; u < U; ++u) sum[f][0] += sum[f][u];
    r.context[first + f] += sum_of_lanes<T, L>(sum[f][0]);
  }
}

template <class T, int F, bool input, bool weight>
ROSSBY_INLINE void multiples(const SampledRow<T>& r, Index first) {
  constexpr int L = lanes<T>;
  const T* z = r.z + first * r.stride;
  T* dz = input ? r.dz + first * r.stride : nullptr;
  Reg<T> g[F];
  for (int f = 0; f < F; ++f) g[f] = splat<Reg<T>>(r.g[first + f]);
  const auto step = [&](Index j, Index count) __attribute__((always_inline)) {
    const Reg<T> w = weights_at(r, j, count), zero{};
    Reg<T> sum{};
#pragma GCC unroll 8
    for (int f = 0; f < F; ++f) {
      const Index at = f * r.stride + j;
      if constexpr (input) store(dz + at, mul_add(w, g[f], load<Reg<T>>(dz + at)));
      if constexpr (weight) sum = mul_add(g[f], load<Reg<T>>(z + at), sum);
    }
    if (r.clamped) sum = (w > zero) & (w < splat<Reg<T>>(T(1))) ? sum : zero;
    return sum;
  };
  Index j = 0;
  for (; j + L <= r.columns; j += L) {
    if (weight && r.next_dm) __builtin_prefetch(r.next_dm + j, 1, 2);
    const Reg<T> sum = step(j, L);
    if constexpr (weight) store(r.dm + j, load<Reg<T>>(r.dm + j) + sum);
  }
  if (j == r.columns) return;
  const Reg<T> sum = step(j, r.columns - j);
  if constexpr (weight)
    for (Index l = 0; j + l < r.columns; ++l) r.dm[j + l] += sum[l];
}

/// f.template operator()<F>(first) over blocks of F channels.
template <class F>
ROSSBY_INLINE void each_channels(Index d, const F& f) {
  Index first = 0;
  for (; first + 8 <= d; first += 8) f.template operator()<8>(first);
  if (d & 4) f.template operator()<4>(first), first += 4;
  if (d & 2) f.template operator()<2>(first), first += 2;
  if (d & 1) f.template operator()<1>(first);
}

template <class T>
void forward(const SampledRow<T>& r) {
  each_channels(r.d, [&]<int F>(Index first) { dots<T, F>(r, first); });
}

template <class T>
void backward(const SampledRow<T>& r) {
  each_channels(r.d, [&]<int F>(Index first) {
    if (r.dz && r.dm)
      multiples<T, F, true, true>(r, first);
    else if (r.dz)
      multiples<T, F, true, false>(r, first);
    else
      multiples<T, F, false, true>(r, first);
  });
}

}  // namespace

ROSSBY_TABLE(SampledKernels, side_by_side* lanes<T>, to_planes<T>, add_planes<T>, forward<T>, backward<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
