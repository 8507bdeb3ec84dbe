#pragma once

#include <cstdint>

namespace rossby {

/// Seconds since it was made, by a clock that nobody sets. (<chrono> is left to the source: compilers take
/// longer over it than over most of ours.)
class Stopwatch {
 public:
  Stopwatch();
  [[nodiscard]] double seconds() const;
  /// seconds(), and begins anew.
  double restart();
  /// Seconds from the moment `earlier` was made to that of this one.
  [[nodiscard]] double since(const Stopwatch& earlier) const;

 private:
  std::int64_t begin_;  // nanoseconds
};

}  // namespace rossby
