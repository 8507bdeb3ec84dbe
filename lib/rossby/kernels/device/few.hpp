#pragma once

#include "rossby/kernels/device/launch.hpp"

namespace rossby::ROSSBY_DEVICE {

/// A list of the host for one kernel: a short one travels with its launch, which a copy of its own would wait
/// for.
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

/// Of time steps and the like.
using FewIndices = Few<Index, 16>;

}  // namespace rossby::ROSSBY_DEVICE
