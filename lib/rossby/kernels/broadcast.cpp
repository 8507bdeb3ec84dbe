#include "rossby/kernels/broadcast.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {

template <class T>
void sum_over_rows(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  require(dx.rows == 1 && dx.cols == dy.cols && dx.channels == dy.channels,
          "a sum over rows is (1, columns, channels)");
  if (dy.size() == 0) return;
  ROSSBY_DISPATCH(sum_over_rows, exec, dx, dy);
}

template <class T>
void sum_over_columns(const Exec& exec, NodeView<T> dx, NodeView<const T> dy) {
  require(dx.rows == dy.rows && dx.cols == 1 && dx.channels == dy.channels,
          "a sum over columns is (rows, 1, channels)");
  if (dy.size() == 0) return;
  ROSSBY_DISPATCH(sum_over_columns, exec, dx, dy);
}

#define ROSSBY_INSTANTIATE(T)                                               \
  template void sum_over_rows(const Exec&, NodeView<T>, NodeView<const T>); \
  template void sum_over_columns(const Exec&, NodeView<T>, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
