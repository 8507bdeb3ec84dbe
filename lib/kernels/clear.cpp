#include <algorithm>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/elementwise.hpp"

#define ROSSBY_CLEAR_ARRAYS \
  template <class T>        \
  void clear_arrays(const Exec&, std::span<const std::span<T>>);

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

template void clear(const Exec&, std::span<const std::span<float>>);
template void clear(const Exec&, std::span<const std::span<double>>);

}  // namespace rossby
