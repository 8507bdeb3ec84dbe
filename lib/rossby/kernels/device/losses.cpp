#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/reductions.hpp"

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

template <class T>
void sum_of_squares(const Exec& exec, std::span<const T> x, double* sum) {
  const T* values = x.data();
  sum_later(
      exec, std::ssize(x),
      [=] ROSSBY_ON_DEVICE(Index k) {
        return static_cast<double>(values[k]) * static_cast<double>(values[k]);
      },
      sum);
}

/// The smallest number in ascending pieces: each thread its first, then the first of those.
template <class T>
Index first_non_finite(const Exec& exec, std::span<const T> x) {
  const Index size = std::ssize(x), pieces = std::min<Index>(size, Index{1} << 14);
  if (size == 0) return -1;
  const Index each = (size + pieces - 1) / pieces;
  const T* values = x.data();
  Index* first = exec.device->scratch<Index>(pieces + 1);
  for_each(exec, pieces, [=] ROSSBY_ON_DEVICE(Index piece) {
    const Index end = (piece + 1) * each < size ? (piece + 1) * each : size;
    first[piece] = -1;
    for (Index k = piece * each; k < end && first[piece] < 0; ++k)
      if (!(values[k] - values[k] == T(0))) first[piece] = k;
  });
  for_each(exec, 1, [=] ROSSBY_ON_DEVICE(Index) {
    Index found = -1;
    for (Index piece = 0; piece < pieces && found < 0; ++piece) found = first[piece];
    first[pieces] = found;
  });
  Index found = -1;
  exec.device->download(std::span<Index>(&found, 1), first + pieces);
  exec.device->wait();
  return found;
}

template <class T>
void clamp_unit(const Exec& exec, std::span<T> y, std::span<const T> m) {
  T* to = y.data();
  const T* from = m.data();
  for_each(exec, std::ssize(m), [=] ROSSBY_ON_DEVICE(Index k) {
    to[k] = from[k] < T(0) ? T(0) : from[k] > T(1) ? T(1) : from[k];
  });
}

template <class T>
void clamp_l1_sum(const Exec& exec, std::span<const T> m, double* sum) {
  const T* from = m.data();
  sum_later(
      exec, std::ssize(m),
      [=] ROSSBY_ON_DEVICE(Index k) {
        const T value = from[k] < T(0) ? T(0) : from[k] > T(1) ? T(1) : from[k];
        return static_cast<double>(value);
      },
      sum);
}

template <class T>
void clamp_l1_backward(const Exec& exec, std::span<T> dm, std::span<const T> m, double scale) {
  T* to = dm.data();
  const T* from = m.data();
  for_each(exec, std::ssize(m), [=] ROSSBY_ON_DEVICE(Index k) {
    if (from[k] > T(0) && from[k] < T(1)) to[k] += static_cast<T>(scale);
  });
}

#define ROSSBY_INSTANTIATE(T)                                                                           \
  template void masked_error_sum(const Exec&, MaskedError, NodeView<const T>, NodeView<const float>,    \
                                 double*);                                                              \
  template void masked_error_backward(const Exec&, MaskedError, NodeView<T>, NodeView<const T>,         \
                                      NodeView<const float>, double);                                   \
  template void squared_difference_sum(const Exec&, NodeView<const T>, NodeView<const T>, double*);     \
  template void squared_difference_gradients(const Exec&, const GradientOut<T>&, const GradientOut<T>&, \
                                             NodeView<const T>, NodeView<const T>, double, double*);    \
  template void sum_of_squares(const Exec&, std::span<const T>, double*);                               \
  template Index first_non_finite(const Exec&, std::span<const T>);                                     \
  template void clamp_unit(const Exec&, std::span<T>, std::span<const T>);                              \
  template void clamp_l1_sum(const Exec&, std::span<const T>, double*);                                 \
  template void clamp_l1_backward(const Exec&, std::span<T>, std::span<const T>, double);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::ROSSBY_DEVICE
