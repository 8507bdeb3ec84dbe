#include "rossby/tensor/buffer.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Large memory is the system's own: zero until it is touched, in huge pages where the system grants them
// (kernels that jump from row to row of a large matrix otherwise miss the page table's cache), and gone when
// it is released. An allocator may keep it: MPI libraries tell it to.
#if defined(__linux__)
constexpr bool pages_are_mapped = true;

void* map_pages(std::size_t bytes) {
  const std::size_t all = bytes + huge_page;
  void* mapped = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t before =
      round_up(reinterpret_cast<std::uintptr_t>(begin), huge_page) - reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) (void)munmap(begin, before);
  if (before < huge_page) (void)munmap(begin + before + bytes, huge_page - before);
  (void)madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}
#else
constexpr bool pages_are_mapped = false;

void* map_pages(std::size_t bytes) {
  return std::aligned_alloc(huge_page, bytes);
}
#endif
}  // namespace

void* allocate(std::size_t bytes) {
  const bool large = bytes >= huge_bytes;
  const std::size_t rounded = round_up(bytes, large ? huge_page : line);
  void* pointer = rounded < bytes ? nullptr : large ? map_pages(rounded) : std::aligned_alloc(line, rounded);
  if (!pointer)
    user_error(
        "out of memory: a buffer of {:.3f} GiB does not fit; use more ranks, fewer steps a slab or a smaller "
        "model",
        static_cast<double>(bytes) / (1 << 30));
  if (!large || !pages_are_mapped) std::memset(pointer, 0, rounded);
  allocations.fetch_add(1, std::memory_order_relaxed);
  return pointer;
}

void release(void* pointer, std::size_t bytes) noexcept {
#if defined(__linux__)
  if (bytes >= huge_bytes) {
    (void)munmap(pointer, round_up(bytes, huge_page));
    return;
  }
#endif
  (void)bytes;
  std::free(pointer);
}

Index allocation_count() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace rossby::detail
