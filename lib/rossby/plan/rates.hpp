#pragma once

#include <string>

namespace rossby {

enum class Stream {
  triad,  // x = y + s·z, 12 bytes an element
  read,   // Σ y, 4 bytes
  update  // y = s·y, 8 bytes
};

/// Best rate of a stream over a working set of `bytes`, bytes a second, tried for `seconds` or a little
/// longer: the upper decile of its pieces, each of which fits between two interruptions.
[[nodiscard]] double measure_stream(Stream stream, double bytes, int threads, double seconds);
/// Largest SGEMM rate over square matrices of `size`, every thread multiplying its own, flops a second.
[[nodiscard]] double measure_gemm(int size, int threads);
/// The processor's name, or "unknown".
[[nodiscard]] std::string processor();

}  // namespace rossby
