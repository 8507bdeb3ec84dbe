#include "rossby/kernels/occupy.hpp"

#include "rossby/kernels/device/backend.hpp"

#if !defined(__CUDACC__)
#include <chrono>
#endif

namespace rossby::ROSSBY_DEVICE {
namespace {

ROSSBY_ON_DEVICE inline unsigned long long nanoseconds() {
#if defined(__CUDACC__)
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#else
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<unsigned long long>(std::chrono::nanoseconds(now).count());
#endif
}

}  // namespace

void occupy(const Exec& exec, double seconds) {
  const auto length = static_cast<unsigned long long>(1e9 * std::max(seconds, 0.0));
  for_each(exec, 1, [=] ROSSBY_ON_DEVICE(Index) {
    const unsigned long long begin = nanoseconds();
    while (nanoseconds() - begin < length) {
    }
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE_ONE(occupy)
