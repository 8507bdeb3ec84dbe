#include "rossby/kernels/loss.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

template <class T>
double masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                        NodeView<const float> target) {
  if (kind == MaskedError::squared)
    return reduce_runs(
        exec,
        [](Index k, const T* p, const float* x) {
          const double error = std::isnan(x[k]) ? 0.0 : double{p[k] - static_cast<T>(x[k])};
          return error * error;
        },
        prediction, target);
  return reduce_runs(
      exec,
      [](Index k, const T* p, const float* x) {
        return std::isnan(x[k]) ? 0.0 : std::abs(double{p[k] - static_cast<T>(x[k])});
      },
      prediction, target);
}

template <class T>
void masked_error_backward(const Exec& exec, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale) {
  if (kind == MaskedError::squared) {
    const T factor = static_cast<T>(2 * scale);
    return for_each_run(
        exec,
        [factor](Index size, T* to, const T* p, const float* x) {
          for (Index k = 0; k < size; ++k)
            to[k] += std::isnan(x[k]) ? T{0} : factor * (p[k] - static_cast<T>(x[k]));
        },
        dprediction, prediction, target);
  }
  const T factor = static_cast<T>(scale);
  for_each_run(
      exec,
      [factor](Index size, T* to, const T* p, const float* x) {
        for (Index k = 0; k < size; ++k) {
          if (std::isnan(x[k])) continue;
          const T error = p[k] - static_cast<T>(x[k]);
          to[k] += error > 0 ? factor : error < 0 ? -factor : factor * error;  // 0 stays 0, NaN stays NaN
        }
      },
      dprediction, prediction, target);
}

Index count_observed(const Exec& exec, NodeView<const float> target) {
  return static_cast<Index>(reduce_runs(
      exec, [](Index k, const float* x) { return std::isnan(x[k]) ? 0.0 : 1.0; }, target));
}

template <class T>
double squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b) {
  return reduce_runs(
      exec,
      [](Index k, const T* left, const T* right) {
        const double difference = left[k] - right[k];
        return difference * difference;
      },
      a, b);
}

template <class T>
void squared_difference_backward(const Exec& exec, NodeView<T> da, NodeView<T> db, NodeView<const T> a,
                                 NodeView<const T> b, double scale) {
  const auto add_to = [&](NodeView<T> gradient, T factor) {
    if (!gradient.data) return;
    for_each_run(
        exec,
        [factor](Index size, T* to, const T* left, const T* right) {
          for (Index k = 0; k < size; ++k) to[k] += factor * (left[k] - right[k]);
        },
        gradient, a, b);
  };
  add_to(da, static_cast<T>(2 * scale));
  add_to(db, static_cast<T>(-2 * scale));
}

#define ROSSBY_INSTANTIATE(T)                                                                           \
  template double masked_error_sum(const Exec&, MaskedError, NodeView<const T>, NodeView<const float>); \
  template void masked_error_backward(const Exec&, MaskedError, NodeView<T>, NodeView<const T>,         \
                                      NodeView<const float>, double);                                   \
  template double squared_difference_sum(const Exec&, NodeView<const T>, NodeView<const T>);            \
  template void squared_difference_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<const T>,   \
                                            NodeView<const T>, double);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
