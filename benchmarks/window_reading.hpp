#pragma once

// Times reading and fetching the windows of a batch, and compares it with the methods of others.

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "benchmarks/window_training.hpp"

namespace rossby::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds to read all windows of a batch, and to copy the bytes that they are read from.
struct Reading {
  double read = 0, copy = 0, bytes = 0;
};

/// Batches of this group's windows, copied from the series beforehand as in published codes: inputs and
/// targets, value and time of day, in doubles (the baseline of PGT-I, SC 2025).
struct Materialised {
  double bytes = 0, build = 0, read = 0, read_bytes = 0;
};

[[nodiscard]] Reading time_reading(WindowTraining& training, int repeats);
[[nodiscard]] Materialised time_materialised(WindowTraining& training, int repeats);
/// Returns the seconds of a transfer that nothing hides, median over batches, and its bytes to this rank.
[[nodiscard]] std::pair<double, double> time_fetching(WindowTraining& training, int repeats);

}  // namespace rossby::bench
