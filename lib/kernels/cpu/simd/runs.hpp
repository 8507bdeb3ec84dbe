#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

// Walks over contiguous values, a register at a time.

namespace rossby::cpu::ROSSBY_ISA {

/// The first `count` lanes from memory, the others 0.
template <class V, class T>
ROSSBY_INLINE V load_first(const T* from, Index count) {
  V v{};
  for (Index q = 0; q < count; ++q) v[static_cast<int>(q)] = from[q];
  return v;
}

template <class V, class T>
ROSSBY_INLINE void store_first(T* to, V v, Index count) {
  for (Index q = 0; q < count; ++q) to[q] = v[static_cast<int>(q)];
}

/// y[k] = f(y[k], x[k]…), where f takes and returns registers; y is not read where f ignores it.
template <class T, class F, class... X>
ROSSBY_INLINE void map_registers(Index size, const F& f, T* y, const X*... x) {
  constexpr int count = lanes<T>;
  using V = Vec<T, count>;
  Index k = 0;
#pragma GCC unroll 4
  for (; k + count <= size; k += count) store(y + k, f(load<V>(y + k), load<Vec<X, count>>(x + k)...));
  if (k < size)
    store_first(y + k, f(load_first<V>(y + k, size - k), load_first<Vec<X, count>>(x + k, size - k)...),
                size - k);
}

/// Σ f(x[k]…) in double: f takes registers of as many values as a register of doubles has, and returns such a
/// register. f(0…) must be 0.
template <class F, class... X>
ROSSBY_INLINE double sum_registers(Index size, const F& f, const X*... x) {
  constexpr int count = lanes<double>, together = 4;
  using D = Vec<double, count>;
  D sum[together] = {};
  Index k = 0;
  for (; k + together * count <= size; k += together * count)
#pragma GCC unroll 4
    for (int r = 0; r < together; ++r) sum[r] += f(load<Vec<X, count>>(x + k + r * count)...);
  for (; k + count <= size; k += count) sum[0] += f(load<Vec<X, count>>(x + k)...);
  if (k < size) sum[1] += f(load_first<Vec<X, count>>(x + k, size - k)...);
  return sum_of_lanes<double, count>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/// The lanes as values of T.
template <class T, class V>
ROSSBY_INLINE auto convert(V v) {
  if constexpr (sizeof(v[0]) == sizeof(T))
    return v;
  else
    return __builtin_convertvector(v, Vec<T, static_cast<int>(sizeof(V) / sizeof(v[0]))>);
}

}  // namespace rossby::cpu::ROSSBY_ISA
