#include <algorithm>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/elementwise.hpp"

#define ROSSBY_CLEAR_ARRAYS                                      \
  template <class T>                                             \
  void clear_arrays(const Exec&, std::span<const std::span<T>>); \
  template <class T>                                             \
  void clear_view(const Exec&, NodeView<T>);

namespace rossby::simulated {
ROSSBY_CLEAR_ARRAYS
}
ROSSBY_IN_CUDA(ROSSBY_CLEAR_ARRAYS)

#undef ROSSBY_CLEAR_ARRAYS

namespace rossby {

template <class T>
void clear(const Exec& exec, std::span<const std::span<T>> arrays) {
  if (exec.backend == Backend::simulated) return simulated::clear_arrays(exec, arrays);
  if (exec.backend == Backend::cuda) ROSSBY_FROM_CUDA(clear_arrays, exec, arrays);
  for (const std::span<T>& array : arrays) clear(exec, array.data(), std::ssize(array));
}

template <class T>
void clear_view(const Exec& exec, NodeView<T> y) {
  if (y.packed()) return clear(exec, y.data, y.size());
  if (exec.backend == Backend::simulated) return simulated::clear_view(exec, y);
  if (exec.backend == Backend::cuda) ROSSBY_FROM_CUDA(clear_view, exec, y);
  for (Index i = 0; i < y.rows; ++i)
    for (Index b = 0; b < y.cols; ++b) clear(exec, y.at(i, b), y.channels);
}

#define ROSSBY_INSTANTIATE(T)                                      \
  template void clear(const Exec&, std::span<const std::span<T>>); \
  template void clear_view(const Exec&, NodeView<T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
