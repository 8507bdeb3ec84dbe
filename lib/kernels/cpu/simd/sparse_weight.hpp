#pragma once

#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {

// As kernels/clamp.hpp has them, in a namespace of their own.
template <class T>
ROSSBY_INLINE T effective_weight(T value, bool clamped) {
  return !clamped ? value : value < T(0) ? T(0) : value > T(1) ? T(1) : value;  // NaN stays NaN
}
template <class T>
ROSSBY_INLINE bool weight_learns(T value, bool clamped) {
  return !clamped || (value > T(0) && value < T(1));
}

}  // namespace rossby::cpu::ROSSBY_ISA
