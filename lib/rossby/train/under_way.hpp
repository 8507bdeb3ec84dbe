#pragma once

#include <array>
#include <cstddef>

#include "rossby/tensor/device.hpp"

namespace rossby {

/// Steps that a host has given a device and not waited for: no more than a few, so that what the clock or a
/// signal asks for comes that many steps later at most, and some, so that the device has the next one to do.
class UnderWay {
 public:
  UnderWay() = default;
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    for (void* event : ends_)
      if (event) device_->driver().drop_event(event);
  }

  /// The end of a step that has been enqueued on the device, always the same one. Waits until the one `most`
  /// steps before has ended.
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
