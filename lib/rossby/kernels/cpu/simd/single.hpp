#pragma once

#include "rossby/kernels/cpu/simd/shuffle.hpp"

// Layers between one channel and D = 2…8. Rows of D values are contiguous: L of them are D registers, and
// lane l of register q belongs to row (q·L + l) / D and channel (q·L + l) % D. Places of a row's value are
// therefore compile-time constants for every D.

namespace rossby::cpu::ROSSBY_ISA {

template <class T, int L, int D, int q, int... I>
ROSSBY_INLINE Vec<T, L> spread_rows(Vec<T, L> rows, Places<I...>) {
  return __builtin_shufflevector(rows, rows, ((q * L + I) / D)...);
}
/// Spreads L rows' values to the lanes of register q that belong to each row.
template <class T, int L, int D, int q>
ROSSBY_INLINE Vec<T, L> spread_rows(Vec<T, L> rows) {
  return spread_rows<T, L, D, q>(rows, AllPlaces<L>{});
}

template <class T, int L, int D, int f, int q, int... I>
ROSSBY_INLINE Vec<T, L> take_channel(Vec<T, L> taken, Vec<T, L> next, Places<I...>) {
  // Lanes whose value is in neither register stay unchanged.
  return __builtin_shufflevector(taken, next,
                                 ((I * D + f) / L == q             ? L + (I * D + f) % L
                                  : q == 1 && (I * D + f) / L == 0 ? I * D + f
                                                                   : I)...);
}
/// Channel f of L rows, from their registers 0…q.
template <class T, int L, int D, int f, int q = D - 1>
ROSSBY_INLINE Vec<T, L> channel_of(const Vec<T, L>* v) {
  if constexpr (q == 0)
    return v[0];
  else
    return take_channel<T, L, D, f, q>(channel_of<T, L, D, f, q - 1>(v), v[q], AllPlaces<L>{});
}

/// True if rows of D values are whole groups of lanes.
template <class T, int D>
inline constexpr bool folds = (D & (D - 1)) == 0 && lanes<T> % D == 0;

/// Channels' weights in the lanes of D registers of rows; the registers are equal if rows are whole groups of
/// lanes.
template <class T, int D>
ROSSBY_INLINE void spread_weights(const T* w, Index stride, Vec<T, lanes<T>>* weights) {
  constexpr int L = lanes<T>, unlike = folds<T, D> ? 1 : D;
  for (int q = 0; q < unlike * L; ++q) weights[q / L][q % L] = w[q % D * stride];
  for (int q = unlike; q < D; ++q) weights[q] = weights[0];
}

// Products of L rows; F counts channels or registers, of which there are equally many.

template <class T, int D, int... F>
ROSSBY_INLINE Vec<T, lanes<T>> to_one_block(const T* x, const Vec<T, lanes<T>>* w, Vec<T, lanes<T>> sum,
                                            Places<F...>) {
  constexpr int L = lanes<T>;
  using V = Vec<T, L>;
  if constexpr (folds<T, D>) {
    // Neighbours are added: 2 (D − 1) permutations instead of the D (D − 1) of separate channels.
    V products[D] = {load<V>(x + F * L) * w[F]...};
    return sum + fold<T, L, D>(products);
  } else {
    const V v[D] = {load<V>(x + F * L)...};
    ((sum += channel_of<T, L, D, F>(v) * w[F]), ...);
    return sum;
  }
}

template <class T, int D, int... F>
ROSSBY_INLINE void from_one_block(const T* x, const Vec<T, lanes<T>>* w, T* y, bool add, Places<F...>) {
  constexpr int L = lanes<T>;
  using V = Vec<T, L>;
  const V values = load<V>(x);
  if (add)
    (store(y + F * L, load<V>(y + F * L) + spread_rows<T, L, D, F>(values) * w[F]), ...);
  else
    (store(y + F * L, spread_rows<T, L, D, F>(values) * w[F]), ...);
}

template <class T, int D, int... F>
ROSSBY_INLINE void outer_of_one_block(const T* x, const T* y, Vec<T, lanes<T>>* sums, Places<F...>) {
  constexpr int L = lanes<T>;
  using V = Vec<T, L>;
  const V values = load<V>(x);
  ((sums[F] += spread_rows<T, L, D, F>(values) * load<V>(y + F * L)), ...);
}

/// y (rows) = x (rows, D) · w, from `start` (null: zero), or += the same with `add`.
template <class T, int D>
void to_one(Index rows, const T* x, const T* w, Index stride, const T* start, T* y, bool add) {
  constexpr int L = lanes<T>;
  using V = Vec<T, L>;
  V weights[D];
  if constexpr (folds<T, D>)
    spread_weights<T, D>(w, stride, weights);
  else
    for (int f = 0; f < D; ++f) weights[f] = splat<V>(w[f * stride]);
  const V from = splat<V>(start ? *start : T(0));
  Index row = 0;
  for (; row + L <= rows; row += L)
    store(y + row, to_one_block<T, D>(x + row * D, weights, add ? load<V>(y + row) : from, AllPlaces<D>{}));
  if (row == rows) return;
  const Index left = rows - row;
  T inputs[L * D] = {};
  for (Index q = 0; q < left * D; ++q) inputs[q] = x[row * D + q];
  const V sums = to_one_block<T, D>(inputs, weights, V{}, AllPlaces<D>{});
  for (int q = 0; q < left; ++q) y[row + q] = sums[q] + (add ? y[row + q] : from[0]);
}

/// y (rows, D) = x (rows) · w, or += the same with `add`.
template <class T, int D>
void from_one(Index rows, const T* x, const T* w, Index stride, T* y, bool add) {
  constexpr int L = lanes<T>;
  Vec<T, L> weights[D];
  spread_weights<T, D>(w, stride, weights);
  Index row = 0;
  for (; row + L <= rows; row += L) from_one_block<T, D>(x + row, weights, y + row * D, add, AllPlaces<D>{});
  if (row == rows) return;
  const Index left = rows - row;
  T inputs[L] = {}, products[L * D];
  for (Index q = 0; q < left; ++q) inputs[q] = x[row + q];
  from_one_block<T, D>(inputs, weights, products, false, AllPlaces<D>{});
  for (Index q = 0; q < left * D; ++q) y[row * D + q] = products[q] + (add ? y[row * D + q] : T(0));
}

/// dw (D) += Σ over rows of x (rows) · y (rows, D).
template <class T, int D>
void outer_of_one(Index rows, const T* x, const T* y, T* dw, Index stride) {
  constexpr int L = lanes<T>;
  Vec<T, L> sums[D];
  for (int q = 0; q < D; ++q) sums[q] = Vec<T, L>{};
  Index row = 0;
  for (; row + L <= rows; row += L) outer_of_one_block<T, D>(x + row, y + row * D, sums, AllPlaces<D>{});
  if (row < rows) {
    T one[L] = {}, many[L * D] = {};
    for (Index q = 0; q < rows - row; ++q) one[q] = x[row + q];
    for (Index q = 0; q < (rows - row) * D; ++q) many[q] = y[row * D + q];
    outer_of_one_block<T, D>(one, many, sums, AllPlaces<D>{});
  }
  T total[D] = {};
  for (int q = 0; q < D * L; ++q) total[q % D] += sums[q / L][q % L];
  for (int f = 0; f < D; ++f) dw[f * stride] += total[f];
}

/// Calls f.operator()<D>() if `width` is such a D; otherwise returns false.
template <class F>
ROSSBY_INLINE bool with_single(Index width, const F& f) {
  switch (width) {
    case 2:
      return f.template operator()<2>(), true;
    case 3:
      return f.template operator()<3>(), true;
    case 4:
      return f.template operator()<4>(), true;
    case 5:
      return f.template operator()<5>(), true;
    case 6:
      return f.template operator()<6>(), true;
    case 7:
      return f.template operator()<7>(), true;
    case 8:
      return f.template operator()<8>(), true;
    default:
      return false;
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
