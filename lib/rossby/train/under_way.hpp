#pragma once

#include <array>
#include <cstddef>

#include "rossby/tensor/device.hpp"

namespace rossby {

/// Limits the steps that a device has enqueued and the host has not waited for. Few steps let the host react
/// soon to the clock or a signal; more than one keep the device busy.
class UnderWay {
 public:
  UnderWay() = default;
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    for (void* event : ends_)
      if (event) device_->driver().drop_event(event);
  }

  /// Records the end of a step enqueued on the device, always the same device. Waits until the step `most`
  /// before it has ended.
  void add(Device& device) {
    device_ = &device;
    void*& end = ends_[next_++ % ends_.size()];
    if (end)
      device.driver().wait(end);
    else
      end = device.driver().make_event();
    device.driver().record(end, DeviceDriver::Queue::compute);
  }

  static constexpr std::size_t most = 4;

 private:
  Device* device_ = nullptr;
  std::array<void*, most> ends_{};
  std::size_t next_ = 0;
};

}  // namespace rossby
