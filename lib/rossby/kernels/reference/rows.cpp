#include "rossby/kernels/rows.hpp"

namespace rossby::reference {

template <class T>
void gather_rows(const Exec&, T* out, NodeView<const T> x, std::span<const LocalColumn> rows) {
  for (const LocalColumn row : rows)
    for (Index b = 0; b < x.cols; ++b)
      for (Index c = 0; c < x.channels; ++c) *out++ = x.at(row, b)[c];
}

template <class T>
void scatter_add_rows(const Exec&, NodeView<T> y, const T* in, const RowSums& sums) {
  for (std::size_t k = 0; k < sums.rows.size(); ++k)
    for (LocalEntry p = sums.ptr[k]; p < sums.ptr[k + 1]; ++p)
      for (Index b = 0; b < y.cols; ++b)
        for (Index c = 0; c < y.channels; ++c)
          y.at(sums.rows[k], b)[c] +=
              in[(Index{sums.position[static_cast<std::size_t>(p)]} * y.cols + b) * y.channels + c];
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, gather_rows, scatter_add_rows)
