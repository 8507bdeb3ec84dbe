#pragma once

#include "rossby/base/bf16.hpp"
#include "rossby/kernels/cpu/simd/vec.hpp"

// Values in bf16, two registers of floats at a time. A 32-bit word holds two neighbours, so one register
// takes the even columns and the other the odd ones, without a shuffle. Reads of a single register are in
// order.

namespace rossby::cpu::ROSSBY_ISA {

using Words = Vec<std::uint32_t, lanes<float>>;

/// A register of values in order.
template <class V>
ROSSBY_INLINE V load(const Bf16* from) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return (V)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from)), 16);
#endif
  constexpr int count = sizeof(V) / sizeof(float);
  Vec<std::uint16_t, count> halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  return (V)(__builtin_convertvector(halves, Vec<std::uint32_t, count>) << 16);
}

/// The words of 2 · lanes values.
ROSSBY_INLINE Words load_words(const Bf16* from) {
  Words words;
  __builtin_memcpy(&words, from, sizeof(words));
  return words;
}
template <class V>
ROSSBY_INLINE V even_values(Words words) {
  return (V)(words << 16);
}
template <class V>
ROSSBY_INLINE V odd_values(Words words) {
  return (V)(words & 0xFFFF0000U);
}

/// NaN without the payload, which PairRounding could carry into another value.
template <class V>
ROSSBY_INLINE V canonical(V values) {
  return values == values ? values : splat<V>(__builtin_nanf(""));
}

/// RoundingBits of a strip of columns, two per word: the even column's bits below the odd one's.
class PairRounding {
 public:
  ROSSBY_INLINE explicit PairRounding(Index column) {  // even
    Words steps;
    for (int l = 0; l < lanes<float>; ++l) steps[l] = static_cast<std::uint32_t>(l) * RoundingBits::spread;
    columns_ = steps + static_cast<std::uint32_t>(column >> 1) * RoundingBits::spread;
  }
  [[nodiscard]] ROSSBY_INLINE Words theta(std::uint32_t row) const {
    const Words x = (columns_ ^ row) * RoundingBits::mix;
    return x ^ x >> 16;
  }
  [[nodiscard]] ROSSBY_INLINE static Words m(Words theta) { return theta << 16 | theta >> 16; }
  [[nodiscard]] ROSSBY_INLINE static Words v(Words theta) { return theta << 8 | theta >> 24; }

  /// Stores all values rounded as by round_stochastic. NaN whose lower half is not zero would
  /// differ, but none occurs here.
  template <class V>
  ROSSBY_INLINE static void store(Bf16* to, V even, V odd, Words random) {
    const Words low = (Words)even + (random & 0xFFFFU), high = (Words)odd + (random >> 16);
    const Words words = low >> 16 | (high & 0xFFFF0000U);
    std::uint16_t* halves = &to->bits;
    __builtin_memcpy(halves, &words, sizeof(words));
  }

 private:
  Words columns_;
};

}  // namespace rossby::cpu::ROSSBY_ISA
