#pragma once

#include <cstdint>

#include "rossby/base/index.hpp"

// Always inline, no library calls: sources compiled for different instruction sets must not share functions.
#if defined(__CUDACC__)
#define ROSSBY_BF16_INLINE __host__ __device__ inline
#else
#define ROSSBY_BF16_INLINE [[gnu::always_inline]] inline
#endif

namespace rossby {

/// bfloat16: the upper half of a float, with 8 bits of exponent and 7 of fraction. Rounding to nearest errs
/// by at most 2⁻⁹ of the value. Storage only: arithmetic uses float.
struct Bf16 {
  std::uint16_t bits;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};

/// The arithmetic type for values stored as S.
template <class S>
struct ArithmeticOf {
  using type = S;
};
template <>
struct ArithmeticOf<Bf16> {
  using type = float;
};
template <class S>
using Arithmetic = typename ArithmeticOf<S>::type;

ROSSBY_BF16_INLINE float widen(Bf16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}
ROSSBY_BF16_INLINE float widen(float value) {
  return value;
}
ROSSBY_BF16_INLINE double widen(double value) {
  return value;
}

/// Returns one of the two bf16 neighbours, chosen by `random` (16 bits) so that the mean is the value itself.
/// Values exact in bf16, infinities and quiet NaN are unchanged.
ROSSBY_BF16_INLINE Bf16 round_stochastic(float value, std::uint32_t random) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  return {static_cast<std::uint16_t>((value == value ? bits + random : bits) >> 16)};
}

/// The nearest value, ties to even.
ROSSBY_BF16_INLINE Bf16 round_nearest(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  return round_stochastic(value, 0x7FFFU + (bits >> 16 & 1));
}

/// The nearest value with 10 bits of fraction, ties away from zero: TF32.
ROSSBY_BF16_INLINE float round_tf32(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  return value == value ? __builtin_bit_cast(float, (bits + 0x1000U) & ~0x1FFFU) : value;
}

/// Random bits for rounding the entries of a (relations, rows, columns) array and their moments. They depend
/// only on the update (its key, a hash of seed, parameter and count) and on global indices. The result
/// therefore depends neither on row blocks nor on threads, and a resumed training is bitwise the same.
struct StochasticRounding {
  std::uint64_t key = 0;
  Index first_row = 0;  // global index of the array's first row

  /// Bits of one row, by splitmix64's finaliser.
  [[nodiscard]] ROSSBY_BF16_INLINE std::uint32_t row(Index relation, Index row) const {
    std::uint64_t x =
        key + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>((relation << 40) + first_row + row + 1);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return static_cast<std::uint32_t>(x >> 32);
  }
};

/// 16 random bits each for an entry's value and its two moments: overlapping parts of the 32 bits that two
/// neighbouring columns share. Each part is uniform and independent of other updates. The highest bits decide
/// the rounding of one value, and no other value of the entry uses them.
struct RoundingBits {
  static constexpr std::uint32_t spread = 0x9E3779B1U;
  static constexpr std::uint32_t mix = 0x846CA68BU;
  std::uint32_t theta, m, v;

  ROSSBY_BF16_INLINE RoundingBits(std::uint32_t row, Index column) {
    std::uint32_t x = (static_cast<std::uint32_t>(column >> 1) * spread ^ row) * mix;
    x ^= x >> 16;
    const int half = column % 2 == 0 ? 0 : 16;
    theta = x >> half & 0xFFFFU;
    v = (x << 8 | x >> 24) >> half & 0xFFFFU;
    m = x >> (16 - half) & 0xFFFFU;
  }
};

}  // namespace rossby
