#include "rossby/tensor/simulated_device.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace rossby {

SimulatedDriver::~SimulatedDriver() {
  for (const auto& [pointer, bytes] : blocks_) (void)::munmap(pointer, bytes);
}

void* SimulatedDriver::allocate(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = (bytes + page - 1) / page * page;
  void* pointer = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED) return nullptr;
  std::memset(pointer, 0xFF, size);  // NaN in float, double and bf16
  (void)::mprotect(pointer, size, PROT_NONE);
  blocks_[pointer] = size;
  return pointer;
}

void SimulatedDriver::release(void* pointer) noexcept {
  run();  // what was enqueued before still reads it
  const auto it = blocks_.find(pointer);
  (void)::munmap(pointer, it->second);
  blocks_.erase(it);
}

void* SimulatedDriver::allocate_pinned(std::size_t bytes) {
  return std::malloc(bytes);
}

void SimulatedDriver::release_pinned(void* pointer) noexcept {
  run();
  std::free(pointer);
}

void SimulatedDriver::copy_in(void* device, const void* host, std::size_t bytes) {
  enqueue([=] { std::memcpy(device, host, bytes); });
}
void SimulatedDriver::copy_out(void* host, const void* device, std::size_t bytes) {
  enqueue([=] { std::memcpy(host, device, bytes); });
}
void SimulatedDriver::copy_within(void* to, const void* from, std::size_t bytes) {
  enqueue([=] { std::memmove(to, from, bytes); });
}
void SimulatedDriver::zero(void* device, std::size_t bytes) {
  enqueue([=] { std::memset(device, 0, bytes); });
}

void SimulatedDriver::open(bool accessible) noexcept {
  for (const auto& [pointer, bytes] : blocks_)
    (void)::mprotect(pointer, bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void SimulatedDriver::wait() {
  ++waits_;
  run();
}

void SimulatedDriver::run() {
  if (queue_.empty()) return;
  const auto work = std::exchange(queue_, {});
  open(true);
  for (const auto& item : work) item();
  open(false);
}

}  // namespace rossby
