#pragma once

#include "rossby/kernels/device/launch.hpp"

namespace rossby::ROSSBY_DEVICE {

/// A host list for one kernel. A short list travels with the kernel's launch, which would otherwise wait for
/// a copy.
template <class T, int N>
class Few {
 public:
  Few(Device& device, std::span<const T> list) {
    if (std::ssize(list) > N)
      many_ = device.on_device(list);
    else
      std::copy(list.begin(), list.end(), few_);
  }
  ROSSBY_ON_DEVICE const T& operator[](Index i) const { return many_ ? many_[i] : few_[i]; }

 private:
  T few_[N] = {};
  const T* many_ = nullptr;
};

/// A list of time steps or similar indices.
using FewIndices = Few<Index, 16>;

}  // namespace rossby::ROSSBY_DEVICE
