#pragma once

#include <cstddef>
#include <vector>

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// What a device takes for the kernels in its queue, whenever the host enqueued them: marks between them.
class QueueClock {
 public:
  /// Of exec.device, which outlives it.
  explicit QueueClock(const Exec& exec) : exec_(exec) {}
  ~QueueClock();
  QueueClock(const QueueClock&) = delete;
  QueueClock& operator=(const QueueClock&) = delete;

  /// Marks the end of what the queue has been given by now; returns the mark's number: 0, 1, …
  std::size_t mark();
  /// Keeps the queue busy for about `seconds` and marks the end of that. What the host enqueues meanwhile
  /// runs without gaps.
  std::size_t hold(double seconds);
  /// Seconds between two marks, once the host has waited for the device.
  [[nodiscard]] double seconds(std::size_t from, std::size_t to) const;
  /// Seconds that a mark itself takes of a queue that is busy: between two of them with nothing in between.
  /// Waits for the device; the next mark is number 0.
  [[nodiscard]] double seconds_of_a_mark();
  /// The next mark is number 0 again.
  void start_anew() { next_ = 0; }

 private:
  Exec exec_;
  std::vector<void*> timers_;
  std::size_t next_ = 0;
};

}  // namespace rossby
