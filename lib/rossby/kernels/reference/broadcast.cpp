#include "rossby/kernels/broadcast.hpp"

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void sum_over_rows(const Exec&, NodeView<T> dx, NodeView<const T> dy) {
  for (Index b = 0; b < dy.cols; ++b)
    for (Index c = 0; c < dy.channels; ++c) {
      double sum = 0;
      for (Index i = 0; i < dy.rows; ++i) sum += double{entry(dy, i, b, c)};
      entry(dx, 0, b, c) = static_cast<T>(double{entry(dx, 0, b, c)} + sum);
    }
}

template <class T>
void sum_over_columns(const Exec&, NodeView<T> dx, NodeView<const T> dy) {
  for (Index i = 0; i < dy.rows; ++i)
    for (Index c = 0; c < dy.channels; ++c) {
      double sum = 0;
      for (Index b = 0; b < dy.cols; ++b) sum += double{entry(dy, i, b, c)};
      entry(dx, i, 0, c) = static_cast<T>(double{entry(dx, i, 0, c)} + sum);
    }
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, sum_over_rows, sum_over_columns)
