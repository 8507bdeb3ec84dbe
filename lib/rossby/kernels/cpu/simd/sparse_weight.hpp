#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {

// The functions of kernels/clamp.hpp in a namespace of their own. They use vectors of which one lane counts:
// learned weights lie on both sides of the clamp's ends, and a branch on them is often mispredicted.

template <class T>
ROSSBY_INLINE T effective_weight(T value, bool clamped) {
  using V = Vec<T, 16 / static_cast<int>(sizeof(T))>;
  return clamped ? clamp01(V{value})[0] : value;  // NaN stays NaN
}

/// The gradient if the weight learns, else 0.
template <class T>
ROSSBY_INLINE T learned_gradient(T value, bool clamped, T gradient) {
  using V = Vec<T, 16 / static_cast<int>(sizeof(T))>;
  const V weight{value};
  const V inside = (weight > V{}) & (weight < splat<V>(T(1))) ? V{gradient} : V{};
  return clamped ? inside[0] : gradient;
}

}  // namespace rossby::cpu::ROSSBY_ISA
