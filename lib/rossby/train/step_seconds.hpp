#pragma once

namespace rossby {

/// Wall-clock seconds of steps on this rank, by phase. Waiting for others counts with its phase. On a device,
/// all values but `reduction` are the host's, which does not wait for kernels.
struct StepSeconds {
  double forward = 0;
  double backward = 0;
  double reduction = 0;  // sums over ranks and time groups; the wait for a device
  double optimiser = 0;
  double waiting = 0;   // for other ranks, part of the others; set by the caller
  double transfer = 0;  // for chunks of streamed relations, part of forward and backward; set by the caller
  [[nodiscard]] double total() const { return forward + backward + reduction + optimiser; }
  StepSeconds& operator+=(const StepSeconds& other) {
    forward += other.forward;
    backward += other.backward;
    reduction += other.reduction;
    optimiser += other.optimiser;
    waiting += other.waiting;
    transfer += other.transfer;
    return *this;
  }
};

}  // namespace rossby
