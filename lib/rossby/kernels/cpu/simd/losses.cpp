#include "rossby/kernels/cpu/simd/losses.hpp"

#include "rossby/kernels/cpu/simd/runs.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

/// p − x, or 0 if x is NaN.
template <class T, class P, class X>
ROSSBY_INLINE P error_lanes(P p, X x) {
  const auto target = convert<T>(x);
  return target == target ? p - target : P{};
}

template <class V>
ROSSBY_INLINE V magnitude(V v) {
  return v < V{} ? -v : v;
}

template <class T>
double masked_squared_sum(Index size, const T* p, const float* x) {
  return sum_registers(
      size,
      [](auto prediction, auto target) {
        const auto error = convert<double>(error_lanes<T>(prediction, target));
        return error * error;
      },
      p, x);
}

template <class T>
double masked_absolute_sum(Index size, const T* p, const float* x) {
  return sum_registers(
      size,
      [](auto prediction, auto target) {
        return convert<double>(magnitude(error_lanes<T>(prediction, target)));
      },
      p, x);
}

template <class T>
void masked_squared_backward(Index size, T* to, const T* p, const float* x, T factor) {
  map_registers(
      size,
      [factor](auto sum, auto prediction, auto target) {
        return sum + factor * error_lanes<T>(prediction, target);
      },
      to, p, x);
}

template <class T>
void masked_absolute_backward(Index size, T* to, const T* p, const float* x, T factor) {
  using V = Vec<T, lanes<T>>;
  const V up = splat<V>(factor), down = splat<V>(-factor);
  map_registers(
      size,
      [=](V sum, V prediction, auto target) {
        const V error = error_lanes<T>(prediction, target);
        const V other = factor * error;  // 0 stays 0, NaN stays NaN
        return sum + (error > V{} ? up : error < V{} ? down : other);
      },
      to, p, x);
}

template <class T>
double masked_squared_gradient(Index size, T* to, const T* p, const float* x, T factor) {
  return sum_registers_at(
      size,
      [=](auto place, auto prediction, auto target) {
        const auto error = error_lanes<T>(prediction, target);
        place.put(to, factor * error);
        const auto wide = convert<double>(error);
        return wide * wide;
      },
      p, x);
}

template <class T>
double squared_difference_sum(Index size, const T* a, const T* b) {
  return sum_registers(
      size,
      [](auto left, auto right) {
        const auto difference = convert<double>(left - right);
        return difference * difference;
      },
      a, b);
}

enum class Give { nothing, value, sum };

/// The rounding does not depend on the treatment of the other side.
template <Give how, class At, class T, class V>
ROSSBY_INLINE void give(At place, T* to, T factor, V difference) {
  if constexpr (how == Give::value) place.put(to, factor * difference);
  if constexpr (how == Give::sum)
    place.put(to, mul_add(splat<V>(factor), difference, place.template get<V>(to)));
}

/// Read db after da is written: they may be the same.
template <Give to_a, Give to_b, class T>
double give_differences(Index size, T* da, T* db, const T* a, const T* b, T factor) {
  return sum_registers_at(
      size,
      [=](auto place, auto left, auto right) {
        const auto difference = left - right;
        give<to_a>(place, da, factor, difference);
        give<to_b>(place, db, -factor, difference);
        const auto wide = convert<double>(difference);
        return wide * wide;
      },
      a, b);
}

template <class T>
double squared_difference_gradients(Index size, T* da, bool add_a, T* db, bool add_b, const T* a, const T* b,
                                    T factor) {
  constexpr Give nothing = Give::nothing, value = Give::value, sum = Give::sum;
  if (da && db) {
    if (add_a)
      return add_b ? give_differences<sum, sum>(size, da, db, a, b, factor)
                   : give_differences<sum, value>(size, da, db, a, b, factor);
    return add_b ? give_differences<value, sum>(size, da, db, a, b, factor)
                 : give_differences<value, value>(size, da, db, a, b, factor);
  }
  if (da)
    return add_a ? give_differences<sum, nothing>(size, da, db, a, b, factor)
                 : give_differences<value, nothing>(size, da, db, a, b, factor);
  return add_b ? give_differences<nothing, sum>(size, da, db, a, b, factor)
               : give_differences<nothing, value>(size, da, db, a, b, factor);
}

template <class T>
double sum_of_squares(Index size, const T* x) {
  return sum_registers(
      size,
      [](auto v) {
        const auto wide = convert<double>(v);
        return wide * wide;
      },
      x);
}

template <class T>
double dot(Index size, const T* a, const T* b) {
  return sum_registers(
      size, [](auto left, auto right) { return convert<double>(left) * convert<double>(right); }, a, b);
}

template <class T>
double sum_of_nothing(Index size, const T* x) {
  return sum_registers(
      size, [](auto v) { return convert<double>(v * T(0)); }, x);
}

template <class T>
double clamp_sum(Index size, const T* m) {
  return sum_registers(
      size, [](auto v) { return convert<double>(clamp01(v)); }, m);
}

template <class T>
void clamp_backward(Index size, T* dm, const T* m, T step) {
  using V = Vec<T, lanes<T>>;
  const V steps = splat<V>(step), one = splat<V>(T(1));
  map_registers(
      size,
      [=](V sum, V v) {
        const V above = v > V{} ? steps : V{};
        return sum + (v < one ? above : V{});
      },
      dm, m);
}

}  // namespace

ROSSBY_TABLE(LossKernels, masked_squared_sum<T>, masked_absolute_sum<T>, masked_squared_backward<T>,
             masked_absolute_backward<T>, masked_squared_gradient<T>, squared_difference_sum<T>,
             squared_difference_gradients<T>, sum_of_squares<T>, dot<T>, sum_of_nothing<T>, clamp_sum<T>,
             clamp_backward<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
