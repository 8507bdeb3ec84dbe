#pragma once

#include <cstdint>

#include "rossby/base/index.hpp"

// Always inline, no library calls: sources compiled for different instruction sets share no function.
#if defined(__CUDACC__)
#define ROSSBY_BF16_INLINE __host__ __device__ inline
#else
#define ROSSBY_BF16_INLINE [[gnu::always_inline]] inline
#endif

namespace rossby {

/// bfloat16: the upper half of a float, 8 bits of exponent and 7 of the fraction (rounding to nearest errs by
/// 2⁻⁹ of the value at most). Storage only: arithmetic is done in float.
struct Bf16 {
  std::uint16_t bits;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};

/// What is computed with values that are stored as S.
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

/// The one of the two neighbours in bf16 that `random` (of 16 bits) picks: each with the probability that
/// makes the mean the value itself. Values that bf16 has, infinities and quiet NaN stay what they are.
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

/// Random bits for rounding the entries of a (relations, rows, columns) array and their moments: functions of
/// the update (its key, a hash of seed, parameter and count) and of global indices alone, so that the result
/// depends neither on the cut into row blocks nor on threads, and a training that goes on has the same bits.
struct StochasticRounding {
  std::uint64_t key = 0;
  Index first_row = 0;  // global row of the array's first one

  /// Of one row; splitmix64's finaliser.
  [[nodiscard]] ROSSBY_BF16_INLINE std::uint32_t row(Index relation, Index row) const {
    std::uint64_t x =
        key + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>((relation << 40) + first_row + row + 1);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return static_cast<std::uint32_t>(x >> 32);
  }
};

/// 16 bits each for the value and the two moments of the entry in a column of a row: overlapping parts of the
/// 32 bits that a column shares with its neighbour. Each is uniform and independent of those of other
/// updates, and what decides how one value is rounded, its highest bits, serves no other value of the entry.
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
