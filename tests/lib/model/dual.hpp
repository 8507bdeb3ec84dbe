#pragma once

#include <cmath>

namespace rossby {

/// A number and its derivative with respect to one parameter.
struct Dual {
  double value = 0, slope = 0;
  Dual(double v = 0, double s = 0) : value(v), slope(s) {}
};
inline Dual operator+(Dual a, Dual b) {
  return {a.value + b.value, a.slope + b.slope};
}
inline Dual operator-(Dual a, Dual b) {
  return {a.value - b.value, a.slope - b.slope};
}
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
inline Dual operator/(Dual a, Dual b) {
  return {a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value};
}
inline Dual exp(Dual a) {
  return {std::exp(a.value), std::exp(a.value) * a.slope};
}
inline Dual sqrt(Dual a) {
  return {std::sqrt(a.value), a.slope / (2 * std::sqrt(a.value))};
}
inline Dual positive_part(Dual a) {
  return a.value > 0 ? a : Dual{};
}
inline Dual logistic(Dual a) {
  return Dual(1) / (Dual(1) + exp(Dual(0) - a));
}
inline Dual hyperbolic_tangent(Dual a) {
  return Dual(2) * logistic(Dual(2) * a) - Dual(1);
}

}  // namespace rossby
