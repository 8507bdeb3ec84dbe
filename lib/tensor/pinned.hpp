#pragma once

#include <span>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// Host memory that a device copies to and from without a detour, so that a copy does not make the host wait.
/// Uninitialised, move-only; the device outlives it.
template <class T>
class Pinned {
 public:
  Pinned() = default;
  Pinned(Device& device, Index size) : device_(&device), size_(size) {
    if (size == 0) return;
    const auto bytes = static_cast<std::size_t>(size) * sizeof(T);
    data_ = static_cast<T*>(device.driver().allocate_pinned(bytes));
    if (!data_) user_error("out of pinned memory: {:.3f} GiB", static_cast<double>(bytes) / (1 << 30));
  }
  Pinned(Pinned&& other) noexcept
      : device_(other.device_),
        size_(std::exchange(other.size_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  Pinned& operator=(Pinned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Pinned() {
    if (data_) device_->driver().release_pinned(data_);
  }

  [[nodiscard]] std::span<T> span() const { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  Device* device_ = nullptr;
  Index size_ = 0;
  T* data_ = nullptr;
};

}  // namespace rossby
