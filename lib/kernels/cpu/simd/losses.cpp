#include "rossby/kernels/cpu/simd/losses.hpp"

#include "rossby/kernels/cpu/simd/runs.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

/// p − x, 0 where x is NaN.
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

double observed(Index size, const float* x) {
  constexpr int count = lanes<float>;
  using V = Vec<float, count>;
  Vec<int, count> missing{};
  Index k = 0;
  for (; k + count <= size; k += count) {
    const V v = load<V>(x + k);
    missing += v != v;  // −1 where true
  }
  if (k < size) {
    const V v = load_first<V>(x + k, size - k);
    missing += v != v;
  }
  return static_cast<double>(size + sum_of_lanes<int, count>(missing));
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

template <bool with_a, bool with_b, class T>
void add_differences(Index size, T* da, T* db, const T* a, const T* b, T factor) {
  constexpr int count = lanes<T>;
  using V = Vec<T, count>;
  // da and db may be one gradient: db is read once da is written.
  Index k = 0;
#pragma GCC unroll 4
  for (; k + count <= size; k += count) {
    const V step = factor * (load<V>(a + k) - load<V>(b + k));
    if (with_a) store(da + k, load<V>(da + k) + step);
    if (with_b) store(db + k, load<V>(db + k) - step);
  }
  for (; k < size; ++k) {
    const T step = factor * (a[k] - b[k]);
    if (with_a) da[k] += step;
    if (with_b) db[k] -= step;
  }
}

template <class T>
void squared_difference_backward(Index size, T* da, T* db, const T* a, const T* b, T factor) {
  if (da && db)
    add_differences<true, true>(size, da, db, a, b, factor);
  else if (da)
    add_differences<true, false>(size, da, db, a, b, factor);
  else if (db)
    add_differences<false, true>(size, da, db, a, b, factor);
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

template <class T>
const LossKernels<T>& loss_kernels() {
  static constexpr LossKernels<T> kernels{masked_squared_sum<T>,
                                          masked_absolute_sum<T>,
                                          masked_squared_backward<T>,
                                          masked_absolute_backward<T>,
                                          observed,
                                          squared_difference_sum<T>,
                                          squared_difference_backward<T>,
                                          sum_of_squares<T>,
                                          sum_of_nothing<T>,
                                          clamp_sum<T>,
                                          clamp_backward<T>};
  return kernels;
}
template const LossKernels<float>& loss_kernels<float>();
template const LossKernels<double>& loss_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
