#pragma once

#include <cstddef>
#include <cstring>

namespace rossby {

/// Sets bytes to 0. Uncached memory must be loaded before it is written, and a core waits for only few lines
/// at a time (about sixteen) if only stores request them. Prefetching requests the lines ahead.
inline void set_zero(void* to, std::size_t bytes) {
  constexpr std::size_t piece = 2048, line = 64, small = std::size_t{1} << 16;
  auto* at = static_cast<char*>(to);
  for (; bytes > small; at += piece, bytes -= piece) {
    for (std::size_t k = 0; k < piece; k += line) __builtin_prefetch(at + piece + k, 1, 2);
    std::memset(at, 0, piece);
  }
  std::memset(at, 0, bytes);
}

}  // namespace rossby
