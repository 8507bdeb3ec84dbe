#pragma once

#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// An array of the host and, where kernels run on a device, its copy there. While a training runs the copy is
/// what is true; `fetch` brings it home for all that the host does (files, forecasts), `send` takes it back.
template <class T>
class Twin {
 public:
  Twin() = default;
  explicit Twin(Buffer<T> values) : host_(std::move(values)) {}

  [[nodiscard]] Buffer<T>& host() { return host_; }
  [[nodiscard]] const Buffer<T>& host() const { return host_; }
  [[nodiscard]] Index size() const { return host_.size(); }

  /// Where kernels of `device` find it (null: of the host). On a device it must have been sent.
  [[nodiscard]] T* data(const Device* device) {
    require(!device || there_.size() == host_.size(), "an array is on the device");
    return device ? there_.data() : host_.data();
  }
  [[nodiscard]] std::span<T> span(const Device* device) {
    return {data(device), static_cast<std::size_t>(host_.size())};
  }

  /// Enqueue copies, which `Device::wait` ends.
  void send(Device& device) {
    if (there_.size() != host_.size()) there_ = Buffer<T>(host_.size(), device);
    device.upload(there_.data(), std::span<const T>(host_.span()));
  }
  void fetch() {
    if (there_.size() > 0) there_.device()->download(host_.span(), there_.data());
  }
  /// Gives the device's memory back.
  void leave() { there_ = {}; }

 private:
  Buffer<T> host_;
  Buffer<T> there_;
};

}  // namespace rossby
