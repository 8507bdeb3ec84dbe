#pragma once

#include <cstdint>

namespace rossby {

/// Measures seconds since construction, with a monotonic clock. (Only the source includes <chrono>, because
/// compiling it takes longer than most of our code.)
class Stopwatch {
 public:
  Stopwatch();
  [[nodiscard]] double seconds() const;
  /// Returns seconds() and restarts.
  double restart();
  /// Seconds from the construction of `earlier` to the construction of this one.
  [[nodiscard]] double since(const Stopwatch& earlier) const;

 private:
  std::int64_t begin_;  // nanoseconds
};

}  // namespace rossby
