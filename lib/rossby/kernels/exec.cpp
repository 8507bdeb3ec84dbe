#include "rossby/kernels/exec.hpp"

#include "rossby/tensor/device.hpp"

namespace rossby {

void settle(const Exec& exec) {
  if (exec.device) exec.device->settle();
}

bool is_of_host(const Exec& exec) {
  return exec.device ? exec.device->driver().stands_for_host() : exec.backend == Backend::cpu;
}

}  // namespace rossby
