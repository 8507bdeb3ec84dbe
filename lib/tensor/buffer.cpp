#include "rossby/tensor/buffer.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace rossby::detail {
namespace {
std::atomic<Index> allocations{0};  // a statistic for tests, not state: nothing reads it to decide anything
}

void* allocate(Memory, std::size_t bytes) {
  constexpr std::size_t line = 64;
  const std::size_t rounded = (bytes + line - 1) / line * line;
  void* pointer = rounded < bytes ? nullptr : std::aligned_alloc(line, rounded);
  if (!pointer)
    user_error(
        "out of memory: a buffer of {:.3f} GiB does not fit; use more ranks, fewer steps a slab or a smaller "
        "model",
        static_cast<double>(bytes) / (1 << 30));
  allocations.fetch_add(1, std::memory_order_relaxed);
  return pointer;
}

void release(Memory, void* pointer) noexcept {
  std::free(pointer);
}

Index allocation_count() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace rossby::detail
