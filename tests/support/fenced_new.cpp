#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

// operator new of tests of kernels. An allocation of 256 bytes and more ends at a page that nobody may
// access, so that a kernel which reads or writes beyond an array crashes in every build. Freed memory stays
// closed. The up to 15 bytes between the end of an array and the page are filled with NaN, and checked when
// the array is freed.

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t alignment = alignof(std::max_align_t);
constexpr std::size_t least = 256;                 // smaller ones are no arrays of a kernel
constexpr std::size_t all = std::size_t{1} << 45;  // addresses are used once
constexpr std::byte filler{0xFF};

std::byte* region() {
  static std::byte* const begin = [] {
    void* mapped = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(mapped);
  }();
  return begin;
}

constexpr std::size_t up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

// Pages of an allocation, with its size in front.
constexpr std::size_t pages_of(std::size_t size) {
  return up(up(size, alignment) + alignment, page);
}

void* fenced(std::size_t size) {
  static std::atomic<std::size_t> used{0};
  const std::size_t own = pages_of(size);
  const std::size_t place = used.fetch_add(own + page);
  if (place + own + page > all) std::abort();
  std::byte* const end = region() + place + own;
  if (mprotect(region() + place, own, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::byte* const begin = end - up(size, alignment);
  std::memcpy(begin - alignment, &size, sizeof size);
  for (std::byte* at = begin + size; at < end; ++at) *at = filler;
  return begin;
}

void free_fenced(std::byte* begin) {
  std::size_t size = 0;
  std::memcpy(&size, begin - alignment, sizeof size);
  std::byte* const end = begin + up(size, alignment);
  for (std::byte* at = begin + size; at < end; ++at)
    if (*at != filler) {
      std::fprintf(stderr, "a test wrote beyond the end of an array of %zu bytes\n", size);
      std::abort();
    }
  // A new mapping gives the pages back.
  (void)mmap(end - pages_of(size), pages_of(size), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void* allocate(std::size_t size) {
  if (size >= least) return fenced(size);
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void release(void* memory) {
  auto* const begin = static_cast<std::byte*>(memory);
  if (begin >= region() && begin < region() + all)
    free_fenced(begin);
  else
    std::free(memory);
}

}  // namespace

// Not inlined: GCC would assume what its own operator new does.
__attribute__((noinline)) void* operator new(std::size_t size) {
  return allocate(size);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  release(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
