#include "rossby/tensor/buffer.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rossby::detail {
namespace {
constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t huge_bytes = 4 * huge_page;

std::atomic<Index> allocations{0};  // a statistic for tests, not state: nothing reads it to decide anything
}  // namespace

void* allocate(Memory, std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_bytes ? huge_page : line;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* pointer = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (!pointer)
    user_error(
        "out of memory: a buffer of {:.3f} GiB does not fit; use more ranks, fewer steps a slab or a smaller "
        "model",
        static_cast<double>(bytes) / (1 << 30));
#if defined(__linux__)
  // A wish: kernels that jump from row to row of a large matrix otherwise miss the page table's cache.
  if (alignment == huge_page) (void)madvise(pointer, rounded, MADV_HUGEPAGE);
#endif
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
