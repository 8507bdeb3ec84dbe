#include "rossby/kernels/broadcast.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/launch.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void sum_over_rows(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  const Index d = dy.channels;
  sum_rows(
      exec, dy.rows, dy.cols * d,
      [=] ROSSBY_ON_DEVICE(Index i, Index o) { return static_cast<double>(dy.at(i, o / d)[o % d]); },
      [=] ROSSBY_ON_DEVICE(Index o, double sum) {
        T& to = dx.at(0, o / d)[o % d];
        to = static_cast<T>(static_cast<double>(to) + sum);
      });
}

template <class T>
void sum_over_columns(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index i, Index, Index c) {
    T sum = dx.at(i, 0)[c];
    for (Index b = 0; b < dy.cols; ++b) sum += dy.at(i, b)[c];
    dx.at(i, 0)[c] = sum;
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(sum_over_rows, sum_over_columns)
