#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rossby/base/error.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/cuda_device.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::test {

/// A simulated device, whose first kernel runs its threads as ROSSBY_TEST_THREADS (up, down, scattered) says:
/// each kernel after it takes the next order, so that three runs of a test give each kernel all of them.
inline std::unique_ptr<SimulatedDriver> simulated_driver() {
  auto driver = std::make_unique<SimulatedDriver>();
  const char* asked = std::getenv("ROSSBY_TEST_THREADS");
  const std::string first = asked ? asked : "up";
  using Threads = SimulatedDriver::Threads;
  require(first == "up" || first == "down" || first == "scattered", "up, down or scattered threads");
  driver->begin_with(first == "up" ? Threads::up : first == "down" ? Threads::down : Threads::scattered);
  return driver;
}

/// A device for tests of back end `backend`; null where this machine has none, and `reason` says why.
inline std::unique_ptr<Device> test_device(Backend backend, std::string& reason, DeviceOptions options = {}) {
  if (backend == Backend::simulated) return std::make_unique<Device>(simulated_driver(), options);
  const CudaDevices found = cuda_devices();
  reason = found.reason;
  if (found.count == 0) return nullptr;
  return std::make_unique<Device>(std::make_unique<CudaDriver>(0), options);
}

/// Vectors of the host that lie on a device while a kernel runs.
class OnDevice {
 public:
  explicit OnDevice(Device& device) : device_(&device) {}

  /// A copy of `values` there, which `fetch` brings back into them; null where they are empty.
  template <class T>
  T* operator()(std::vector<T>& values) {
    if (values.empty()) return nullptr;
    auto buffer = std::make_shared<Buffer<T>>(std::ssize(values), *device_);
    device_->upload(buffer->data(), std::span<const T>(values));
    fetches_.emplace_back([this, buffer, &values] { device_->download(std::span(values), buffer->data()); });
    return buffer->data();
  }
  template <class T>
  std::span<T> scratch(Index size) {
    auto buffer = std::make_shared<Buffer<T>>(size, *device_);
    fetches_.emplace_back([buffer] {});
    return buffer->span();
  }
  void fetch() {
    for (const auto& fetch : fetches_) fetch();
    device_->settle();
    fetches_.clear();
  }

 private:
  Device* device_;
  std::vector<std::function<void()>> fetches_;
};

}  // namespace rossby::test
