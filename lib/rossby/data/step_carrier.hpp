#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// Brings steps of a series to a device that does not keep it, a batch ahead of the kernels that read them:
/// two halves, in turns. Kernels read one while the next batch's steps travel into the other, out of pinned
/// memory and beside the kernels; the host waits for copies of two batches ago at most.
class StepCarrier {
 public:
  /// `width`: values of a step. The device outlives it.
  StepCarrier(Device& device, Index width);
  ~StepCarrier();
  StepCarrier(const StepCarrier&) = delete;
  StepCarrier& operator=(const StepCarrier&) = delete;

  /// Starts to bring steps (ascending, once each), whose values are read now, into the half that is not read;
  /// what was brought there goes.
  void bring(std::span<const Index> steps, const std::function<const float*(Index)>& values);
  /// Kernels enqueued from now on read what was brought last, and what they read before no more.
  void turn();
  /// Where those find a step; null: it was not brought.
  [[nodiscard]] const float* at(Index step) const;

 private:
  struct Half {
    Buffer<float> pinned, there;
    std::vector<Index> steps;
    void* arrived = nullptr;  // event: the copies are done
    void* read = nullptr;     // event: nothing reads them any more
  };

  Device* device_;
  Index width_;
  Half halves_[2];
  int reading_ = 0;
};

}  // namespace rossby
