#pragma once

#include <string>
#include <vector>

namespace rossby {

enum class Stream {
  triad,  // x = y + s·z, 12 bytes an element
  read,   // Σ y, 4 bytes
  update  // y = s·y, 8 bytes
};

/// Returns the best rate of a stream over a working set of `bytes`, in bytes per second, measured for
/// `seconds` or a little longer. It is the upper decile of pieces, each short enough to fit between two
/// interruptions.
[[nodiscard]] double measure_stream(Stream stream, double bytes, int threads, double seconds);
/// Returns the largest SGEMM rate for square matrices of `size`, in flops per second; every thread has its
/// own.
[[nodiscard]] double measure_gemm(int size, int threads);
/// Returns the median; of an even number, the lower one of the middle two.
[[nodiscard]] double median_of(std::vector<double> values);
/// Returns the processor's name, or "unknown".
[[nodiscard]] std::string processor();

}  // namespace rossby
