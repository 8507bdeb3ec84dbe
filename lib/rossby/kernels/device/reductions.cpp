#include "rossby/kernels/reductions.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

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

/// The smallest number in ascending pieces: each thread finds its first, then the first of these is taken.
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

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(sum_of_squares, first_non_finite, clamp_l1_sum, clamp_l1_backward)
