#pragma once

#include "rossby/kernels/cpu/simd/runs.hpp"

// Weighted sums of rows in strips of registers that hold them over all terms: a value is written once.

namespace rossby::cpu::ROSSBY_ISA {

// The rest of a row after its whole registers.

struct NoPart {
  struct V {};
  static constexpr bool counts = false;
};

/// A known number n of values.
template <class T, int n>
struct ShortPart {
  using V = Vec<T, n>;
  static constexpr bool counts = true;
  ROSSBY_INLINE V load(const T* from) const { return ROSSBY_ISA::load<V>(from); }
  ROSSBY_INLINE void store(T* to, V v) const { ROSSBY_ISA::store(to, v); }
};

/// Any number of values below n.
template <class T, int n>
struct FirstPart {
  using V = Vec<T, n>;
  static constexpr bool counts = true;
  Index count;
  ROSSBY_INLINE V load(const T* from) const { return load_first<V>(from, count); }
  ROSSBY_INLINE void store(T* to, V v) const { store_first(to, v, count); }
};

/// Some channels of a row: `registers` whole registers, and the part of one that `Last` takes.
template <class T, int registers, class Last>
struct Strip {
  using V = Vec<T, lanes<T>>;
  V whole[registers > 0 ? registers : 1];
  typename Last::V last;

  ROSSBY_INLINE void fill(T value) {
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) whole[v] = splat<V>(value);
    if constexpr (Last::counts) last = splat<typename Last::V>(value);
  }
  ROSSBY_INLINE void start(const Last& part, const T* base, T share) {
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) whole[v] = base ? share * load<V>(base + v * lanes<T>) : V{};
    if constexpr (Last::counts)
      last = base ? share * part.load(base + registers * lanes<T>) : typename Last::V{};
  }
  ROSSBY_INLINE void add(const Last& part, T weight, const T* from) {
    const V w = splat<V>(weight);
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) whole[v] += w * load<V>(from + v * lanes<T>);
    if constexpr (Last::counts)
      last += splat<typename Last::V>(weight) * part.load(from + registers * lanes<T>);
  }
  ROSSBY_INLINE void finish(const Last& part, T* to) const {
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) store(to + v * lanes<T>, whole[v]);
    if constexpr (Last::counts) part.store(to + registers * lanes<T>, last);
  }
};

/// Cuts a row into strips of up to `most` registers: f<registers>(last, first channel), one after the other.
template <class T, int most, class F>
ROSSBY_INLINE void each_strip(Index channels, const F& f) {
  constexpr int L = lanes<T>;
  Index c = 0;
  const auto some_whole = [&](Index whole, const auto& part) {
    if (whole == 0) f.template operator()<0>(part, c);
    if (whole == 1) f.template operator()<1>(part, c);
    if (whole == 2) f.template operator()<2>(part, c);
    if (whole == 3) f.template operator()<3>(part, c);
  };
  if constexpr (most > 4)
    for (; c + most * L <= channels; c += most * L) f.template operator()<most>(NoPart{}, c);
  for (; c + 4 * L <= channels; c += 4 * L) f.template operator()<4>(NoPart{}, c);
  const Index whole = (channels - c) / L, rest = channels - c - whole * L;
  if (rest == 0) {
    if (whole > 0) some_whole(whole, NoPart{});
  } else if (rest == L / 2) {
    // Crosses fewer cache lines than a masked load; the same holds for halves of a register below.
    some_whole(whole, ShortPart<T, L / 2>{});
  } else if constexpr (masked_loads) {
    if (whole == 0 && rest == L / 4)
      f.template operator()<0>(ShortPart<T, L / 4>{}, c);
    else if (whole == 0 && rest < L / 2)
      f.template operator()<0>(FirstPart<T, L / 2>{rest}, c);
    else
      some_whole(whole, FirstPart<T, L>{rest});
  } else {
    if (whole > 0) some_whole(whole, NoPart{});
    c += whole * L;
    if (rest > L / 2) {
      f.template operator()<0>(ShortPart<T, L / 2>{}, c);
      c += L / 2;
    }
    f.template operator()<0>(ShortPart<T, 1>{}, c);
  }
}

}  // namespace rossby::cpu::ROSSBY_ISA
