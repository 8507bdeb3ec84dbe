#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// Copies steps of a series to a device that does not keep the series, one batch ahead of the kernels. It has
/// two halves. Kernels read one while the next batch's steps are copied to the other, from pinned memory and
/// beside the kernels. The host waits at most for the copies of two batches ago.
class StepCarrier {
 public:
  /// `width`: values per step. The device must outlive it.
  StepCarrier(Device& device, Index width);
  ~StepCarrier();
  StepCarrier(const StepCarrier&) = delete;
  StepCarrier& operator=(const StepCarrier&) = delete;

  /// Starts to copy steps (ascending, each once) to the unused half, replacing its content. Reads their
  /// values at once.
  void bring(std::span<const Index> steps, const std::function<const float*(Index)>& values);
  /// Later kernels read the steps copied last, and no longer the steps before.
  void turn();
  /// Device address of a step for those kernels; null: it was not copied.
  [[nodiscard]] const float* at(Index step) const;

 private:
  struct Half {
    Buffer<float> pinned, there;
    std::vector<Index> steps;
    void* arrived = nullptr;  // event: the copies are done
    void* read = nullptr;     // event: no longer read
  };

  Device* device_;
  Index width_;
  Half halves_[2];
  int reading_ = 0;
};

}  // namespace rossby
