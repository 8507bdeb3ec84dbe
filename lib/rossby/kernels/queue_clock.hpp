#pragma once

#include <cstddef>
#include <vector>

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// Measures the time that a device takes for kernels in its queue, whenever the host enqueued them, by marks
/// between them.
class QueueClock {
 public:
  /// `exec.device` outlives this object.
  explicit QueueClock(const Exec& exec) : exec_(exec) {}
  ~QueueClock();
  QueueClock(const QueueClock&) = delete;
  QueueClock& operator=(const QueueClock&) = delete;

  /// Puts a mark after everything enqueued so far; returns its number: 0, 1, …
  std::size_t mark();
  /// Keeps the queue busy for about `seconds` and marks the end of that time. Kernels enqueued meanwhile run
  /// without gaps.
  std::size_t hold(double seconds);
  /// Seconds between two marks. The host must have waited for the device.
  [[nodiscard]] double seconds(std::size_t from, std::size_t to) const;
  /// Returns the seconds that a mark itself takes in a busy queue, measured between two adjacent marks. Waits
  /// for the device; the next mark is number 0.
  [[nodiscard]] double seconds_of_a_mark();
  /// Restarts numbering: the next mark is number 0.
  void start_anew() { next_ = 0; }

 private:
  Exec exec_;
  std::vector<void*> timers_;
  std::size_t next_ = 0;
};

}  // namespace rossby
