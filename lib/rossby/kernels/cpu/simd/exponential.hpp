#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

// tanh and the logistic function of floats. The polynomials are weighted least squares fits on Chebyshev
// points, reweighted by the residuals until the largest relative error stopped falling (Lawson 1961), and
// rounded to float. Each comment gives the error before rounding. Only IEEE operations are used, so
// instruction sets differ only if one fuses a multiply and an add.

namespace rossby::cpu::ROSSBY_ISA {

/// eʸ = scale + scale·rest for −87 < y < 88.3: scale = 2ᵏ, rest = eʳ − 1, y = k·ln 2 + r, |r| <= ln 2 / 2.
template <int n>
struct Exponential {
  using V = Vec<float, n>;
  V scale, rest;

  ROSSBY_INLINE explicit Exponential(V y) {
    using Bits = Vec<unsigned, n>;
    constexpr float shift = 12582912.0F;  // 1.5·2²³: adding it rounds to an integer, in the low bits
    const V shifted = y * 1.44269504F + shift;
    const V k = shifted - shift;
    // ln 2 in two parts, the first of nine bits: its product with k is exact.
    const V r = y - k * 0.693359375F + k * 2.12194440e-4F;
    scale = (V)(((Bits)shifted << 23) + 0x3F800000U);
    V p = r * 0.0013814453F + 0.008368786F;  // 3e-9 of eʳ
    p = p * r + 0.041668396F;
    p = p * r + 0.1666652F;
    p = p * r + 0.49999994F;
    rest = r + r * r * p;
  }

  /// eʸ + 1
  [[nodiscard]] ROSSBY_INLINE V plus_one() const { return scale * rest + (scale + 1.0F); }
};

/// tanh x: x + x³·P(x²) up to 5/8, then 1 − 2 / (e²ˣ + 1), both of |x|.
template <int n>
ROSSBY_INLINE Vec<float, n> tanh_lanes(Vec<float, n> x) {
  using V = Vec<float, n>;
  using Bits = Vec<unsigned, n>;
  const Bits sign = (Bits)x & 0x80000000U;
  const V a = (V)((Bits)x ^ sign);
  const V z = a * a;
  V p = z * -0.005717037F + 0.020650579F;  // 4e-9 of tanh x
  p = p * z - 0.053743497F;
  p = p * z + 0.13331491F;
  p = p * z - 0.33333284F;
  const V small = a + a * z * p;
  const V twice = a + a;
  const V limit = splat<V>(20.0F);  // tanh 10 rounds to 1
  const V large = 1.0F - 2.0F / Exponential<n>(twice > limit ? limit : twice).plus_one();
  return (V)((Bits)(a < 0.625F ? small : large) | sign);
}

/// 1 / (1 + e⁻ˣ); 0 below −88.
template <int n>
ROSSBY_INLINE Vec<float, n> sigmoid_lanes(Vec<float, n> x) {
  using V = Vec<float, n>;
  const V low = splat<V>(-88.0F), high = splat<V>(30.0F);
  V held = x < low ? low : x;
  held = held > high ? high : held;
  const V y = 1.0F / Exponential<n>(-held).plus_one();
  return x < low ? V{} : y;
}

}  // namespace rossby::cpu::ROSSBY_ISA
