#include "rossby/kernels/rows.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {

template <class T>
void gather_rows(const Exec& exec, T* out, NodeView<const T> x, std::span<const LocalColumn> rows) {
  ROSSBY_DISPATCH(gather_rows, exec, out, x, rows);
}

template <class T>
void scatter_add_rows(const Exec& exec, NodeView<T> y, const T* in, const RowSums& sums) {
  require(sums.ptr.size() == sums.rows.size() + 1, "a list of places for every row");
  ROSSBY_DISPATCH(scatter_add_rows, exec, y, in, sums);
}

#define ROSSBY_INSTANTIATE(T)                                                                  \
  template void gather_rows(const Exec&, T*, NodeView<const T>, std::span<const LocalColumn>); \
  template void scatter_add_rows(const Exec&, NodeView<T>, const T*, const RowSums&);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
