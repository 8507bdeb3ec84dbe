#include "rossby/kernels/occupy.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby::simulated {
void occupy(const Exec& exec, double seconds);
}
ROSSBY_IN_CUDA(void occupy(const Exec& exec, double seconds);)

namespace rossby {

void occupy(const Exec& exec, double seconds) {
  if (exec.backend == Backend::simulated) return simulated::occupy(exec, seconds);
  if (exec.backend == Backend::cuda) ROSSBY_FROM_CUDA(occupy, exec, seconds);
}

}  // namespace rossby
