#pragma once

#include <functional>
#include <map>
#include <vector>

#include "rossby/tensor/device.hpp"

namespace rossby {

/// A device that is none: the same program flow where there is no GPU, for tests. It is stricter than one.
/// Device memory can be touched by what runs in the queue alone (anything else ends the process with a
/// segmentation fault), the queue runs at `wait` and not before, so that what was not waited for is not
/// there, and what is copied in is read then. Fresh device memory holds NaN.
class SimulatedDriver final : public DeviceDriver {
 public:
  explicit SimulatedDriver(std::size_t total_bytes = std::size_t{4} << 30) : total_(total_bytes) {}
  ~SimulatedDriver() override;

  /// Enqueues a kernel.
  void enqueue(std::function<void()> work) { queue_.push_back(std::move(work)); }

  [[nodiscard]] std::string name() const override { return "simulated device"; }
  [[nodiscard]] std::size_t total_bytes() const override { return total_; }
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void release(void* pointer) noexcept override;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* pointer) noexcept override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void zero(void* device, std::size_t bytes) override;
  void wait() override;
  /// This driver: there is one queue.
  [[nodiscard]] void* side_queue() override { return this; }
  void fork() override {}
  void join() override {}

  /// How often `wait` was called: what a test of a step without waiting counts.
  [[nodiscard]] Index waits() const { return waits_; }

 private:
  void open(bool accessible) noexcept;
  void run();

  std::size_t total_;
  std::map<void*, std::size_t> blocks_;  // pages, and their bytes
  std::vector<std::function<void()>> queue_;
  Index waits_ = 0;
};

}  // namespace rossby
