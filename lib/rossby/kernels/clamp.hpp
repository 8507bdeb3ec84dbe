#pragma once

namespace rossby {

/// The relation weight that a stored value stands for, and whether it passes gradient: strictly inside (0, 1)
/// only, as the reference code has it (golden files include values at exactly 0 and 1).
template <class T>
constexpr T effective(T value, bool clamped) {
  return !clamped ? value : value < T(0) ? T(0) : value > T(1) ? T(1) : value;
}
template <class T>
constexpr bool passes_gradient(T value, bool clamped) {
  return !clamped || (value > T(0) && value < T(1));
}

}  // namespace rossby
