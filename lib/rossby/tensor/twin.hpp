#pragma once

#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// A host array and, if kernels run on a device, its copy there. During training the copy is current. `fetch`
/// copies it to the host for files and forecasts, `send` copies it back.
template <class T>
class Twin {
 public:
  Twin() = default;
  explicit Twin(Buffer<T> values) : host_(std::move(values)) {}

  [[nodiscard]] Buffer<T>& host() { return host_; }
  [[nodiscard]] const Buffer<T>& host() const { return host_; }
  [[nodiscard]] Index size() const { return host_.size(); }

  /// The array for kernels of `device` (null: the host). On a device, it must have been sent.
  [[nodiscard]] T* data(const Device* device) {
    require(!device || there_.size() == host_.size(), "an array is on the device");
    return device ? there_.data() : host_.data();
  }
  [[nodiscard]] std::span<T> span(const Device* device) {
    return {data(device), static_cast<std::size_t>(host_.size())};
  }

  /// Enqueue copies; Device::wait completes them.
  void send(Device& device) {
    if (there_.size() != host_.size()) there_ = Buffer<T>(host_.size(), device);
    device.upload(there_.data(), std::span<const T>(host_.span()));
  }
  void fetch() {
    if (there_.size() > 0) there_.device()->download(host_.span(), there_.data());
  }
  /// Releases the device memory.
  void leave() { there_ = {}; }

 private:
  Buffer<T> host_;
  Buffer<T> there_;
};

}  // namespace rossby
