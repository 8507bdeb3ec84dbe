#include "rossby/tensor/buffer.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "rossby/base/user_error.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rossby::detail {
namespace {
constexpr std::size_t line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t huge_bytes = 4 * huge_page;
/// Number of huge pages in 256 MiB. AMD's Zen predicts the first-level cache way of a line from a hash of
/// address bits 12 to 27. Maps tend to lie a multiple of 256 MiB apart. The lines of two such arrays then
/// evict each other when a kernel walks over both.
constexpr std::size_t huge_places = 128;
constexpr std::size_t page = std::size_t{1} << 12;
constexpr std::size_t mapped_bytes = std::size_t{1} << 18;

std::atomic<Index> allocations{0};  // for tests only: no decision depends on it

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Larger buffers are mapped directly: pages are zero until touched and return to the system on release. An
// allocator may keep them (MPI libraries ask it to), and a growing buffer would then remain in several sizes.
// The largest buffers use huge pages if the system grants them. Otherwise kernels that jump between rows of a
// large matrix miss the TLB.
#if defined(__linux__)
constexpr bool pages_are_mapped = true;

/// Maps huge pages whose number is `place` modulo `places`. First reserves address space only, then returns
/// the unused part.
void* map_huge(std::size_t bytes, std::size_t places, std::size_t place) {
  const std::size_t all = bytes + places * huge_page;
  void* mapped = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::size_t first = round_up(address, huge_page) / huge_page;
  const std::size_t before = (first + (place + places - first % places) % places) * huge_page - address;
  auto* begin = static_cast<std::byte*>(mapped);
  if (before > 0) (void)munmap(begin, before);
  if (before + bytes < all) (void)munmap(begin + before + bytes, all - before - bytes);
  if (mprotect(begin + before, bytes, PROT_READ | PROT_WRITE) != 0) {
    (void)munmap(begin + before, bytes);
    return nullptr;
  }
  (void)madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

void* map_pages(std::size_t bytes) {
  if (bytes < huge_bytes) {
    void* mapped = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    // Vary the offset in the page: arrays that all begin at one offset would share a few cache lines.
    static std::atomic<unsigned> next{0};
    return static_cast<std::byte*>(mapped) + next.fetch_add(1, std::memory_order_relaxed) % 16 * (page / 16);
  }
  // The next array begins at another place within 256 MiB: see huge_places.
  static std::atomic<unsigned> next{0};
  const std::size_t place = next.fetch_add(1, std::memory_order_relaxed) % huge_places;
  if (void* mapped = map_huge(bytes, huge_places, place)) return mapped;
  return map_huge(bytes, 1, 0);  // address space is scarce
}
#else
constexpr bool pages_are_mapped = false;

void* map_pages(std::size_t bytes) {
  return std::aligned_alloc(page, bytes);
}
#endif

/// Memory used for a size: whole pages, or cache lines if the allocator serves it.
std::size_t taken(std::size_t bytes) {
  return round_up(bytes, bytes >= huge_bytes ? huge_page : bytes >= mapped_bytes ? page : line);
}

}  // namespace

void* allocate(std::size_t bytes) {
  const bool large = bytes >= mapped_bytes;
  const std::size_t rounded = taken(bytes);
  void* pointer = rounded < bytes ? nullptr : large ? map_pages(rounded) : std::aligned_alloc(line, rounded);
  if (!pointer)
    user_error(
        "out of memory: a buffer of {:.3f} GiB does not fit. Use more ranks on more hosts, fewer steps per "
        "slab (train.slab_steps), fewer windows per batch (window.batch), relation.memory = \"streamed\" for "
        "a dense relation, or a smaller model",
        static_cast<double>(bytes) / (1 << 30));
  if (!large || !pages_are_mapped) std::memset(pointer, 0, rounded);
  allocations.fetch_add(1, std::memory_order_relaxed);
  return pointer;
}

void* reserve(std::size_t bytes) {
#if defined(__linux__)
  void* pointer = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED)
    user_error(
        "out of memory: {:.3f} GiB of address space cannot be reserved. Use more ranks or a smaller relation",
        static_cast<double>(bytes) / (1 << 30));
  return pointer;
#else
  return allocate(bytes);
#endif
}

void give_back(void* pointer, std::size_t bytes) noexcept {
#if defined(__linux__)
  (void)munmap(pointer, bytes);
#else
  release(pointer, bytes);
#endif
}

void release(void* pointer, std::size_t bytes) noexcept {
#if defined(__linux__)
  if (bytes >= huge_bytes) {
    (void)munmap(pointer, taken(bytes));
    return;
  }
  if (bytes >= mapped_bytes) {
    const auto within = reinterpret_cast<std::uintptr_t>(pointer) % page;
    (void)munmap(static_cast<std::byte*>(pointer) - within, taken(bytes) + page);
    return;
  }
#endif
  (void)bytes;
  std::free(pointer);
}

std::size_t resident_bytes(std::size_t bytes, std::size_t touched) {
  if (bytes < mapped_bytes) return taken(bytes);  // cleared as a whole
  return round_up(touched, bytes >= huge_bytes ? huge_page : page);
}

void out_of_pinned_memory(std::size_t bytes) {
  user_error(
      "cannot allocate {:.3f} GiB of pinned host memory. Set relation.transfer = \"pageable\", or use more "
      "ranks",
      static_cast<double>(bytes) / (1 << 30));
}

Index allocation_count() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace rossby::detail
