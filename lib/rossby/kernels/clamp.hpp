#pragma once

namespace rossby {

/// The relation weight of a stored value, and whether it passes gradient: only strictly inside (0, 1), as in
/// the reference code (golden files include values at exactly 0 and 1).
template <class T>
constexpr T effective(T value, bool clamped) {
  return !clamped ? value : value < T(0) ? T(0) : value > T(1) ? T(1) : value;
}
template <class T>
constexpr bool passes_gradient(T value, bool clamped) {
  return !clamped || (value > T(0) && value < T(1));
}

}  // namespace rossby
