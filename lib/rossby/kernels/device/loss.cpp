#include "rossby/kernels/loss.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                      NodeView<const float> target, double* sum) {
  sum_entries_later(
      exec, entries_of(prediction, target),
      [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
        const float x = target.at(i, b)[c];
        if (x != x) return 0.0;
        return kind.value(static_cast<double>(prediction.at(i, b)[c]) - static_cast<double>(x));
      },
      sum);
}

template <class T>
void masked_error_backward(const Exec& exec, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale) {
  for_each_entry(exec, entries_of(dprediction, prediction, target),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
                   const float x = target.at(i, b)[c];
                   if (x != x) return;
                   dprediction.at(i, b)[c] +=
                       static_cast<T>(scale) * kind.gradient(prediction.at(i, b)[c] - static_cast<T>(x));
                 });
}

template <class T>
void squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b, double* sum) {
  sum_entries_later(
      exec, entries_of(a, b),
      [=] ROSSBY_ON_DEVICE(Index i, Index t, Index c) {
        const double difference = static_cast<double>(a.at(i, t)[c]) - static_cast<double>(b.at(i, t)[c]);
        return difference * difference;
      },
      sum);
}

template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum) {
  ROSSBY_DEVICE::squared_difference_sum(exec, a, b, sum);
  const NodeView<T> left = da.to, right = db.to;
  const bool add_left = da.add, add_right = db.add;
  for_each_entry(exec, entries_of(a, b, left, right), [=] ROSSBY_ON_DEVICE(Index i, Index t, Index c) {
    const T gradient = static_cast<T>(2 * scale) * (a.at(i, t)[c] - b.at(i, t)[c]);
    if (left.data) left.at(i, t)[c] = (add_left ? left.at(i, t)[c] : T(0)) + gradient;
    if (right.data) right.at(i, t)[c] = (add_right ? right.at(i, t)[c] : T(0)) - gradient;
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(masked_error_sum, masked_error_backward, squared_difference_sum,
                        squared_difference_gradients)
