#pragma once

#include "rossby/base/bf16.hpp"
#include "rossby/kernels/cpu/simd/vec.hpp"

// Values in bf16, a register of floats at a time.

namespace rossby::cpu::ROSSBY_ISA {

template <class V>
ROSSBY_INLINE V load(const Bf16* from) {
  constexpr int count = sizeof(V) / sizeof(float);
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return (V)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from)), 16);
#endif
  Vec<std::uint16_t, count> halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  return (V)(__builtin_convertvector(halves, Vec<std::uint32_t, count>) << 16);
}

/// The bits of RoundingBits for the entries of a row from `column` on, and rounding with them: equal to
/// round_stochastic.
struct Rounding {
  static constexpr int count = lanes<float>;
  using U = Vec<std::uint32_t, count>;
  U x;

  ROSSBY_INLINE Rounding(std::uint32_t row, Index column) {
    U steps;
    for (int l = 0; l < count; ++l) steps[l] = static_cast<std::uint32_t>(l);
    x = (steps + static_cast<std::uint32_t>(column)) ^ row;
    x *= 0x7FEB352DU;
    x ^= x >> 15;
    x *= 0x846CA68BU;
    x ^= x >> 16;
  }
  [[nodiscard]] ROSSBY_INLINE U theta() const { return x & 0xFFFFU; }
  [[nodiscard]] ROSSBY_INLINE U v() const { return x >> 16; }
  [[nodiscard]] ROSSBY_INLINE U m() const { return x * 0x9E3779B1U >> 16; }

  /// Stores the first `size` values.
  template <class V>
  ROSSBY_INLINE static void store(Bf16* to, V value, U random, Index size) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      const __mmask16 ordered = _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_ORD_Q);
      const __m512i sum = _mm512_mask_add_epi32((__m512i)value, ordered, (__m512i)value, (__m512i)random);
      const __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
      if (size >= count)
        _mm256_storeu_si256((__m256i*)to, halves);
      else
        _mm256_mask_storeu_epi16(to, static_cast<__mmask16>((1U << size) - 1), halves);
      return;
    }
#endif
    U bits = (U)value;
    bits += value == value ? random : U{};
    const auto halves = __builtin_convertvector(bits >> 16, Vec<std::uint16_t, count>);
    if (size >= count)
      __builtin_memcpy(to, &halves, sizeof(halves));
    else
      for (Index l = 0; l < size; ++l) to[l] = {halves[l]};
  }
};

}  // namespace rossby::cpu::ROSSBY_ISA
