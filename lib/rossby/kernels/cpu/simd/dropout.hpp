#pragma once

#include <cstdint>

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Functions of one instruction set over `size` contiguous values; no two arrays overlap.
template <class T>
struct DropoutKernels {
  /// keep[k] = 1 if the upper 53 of the 64 bits of Random for this key and counter first + k are at least
  /// `least`, otherwise 0.
  void (*draw)(Index size, std::uint8_t* keep, std::uint64_t key, std::uint64_t first, std::uint64_t least);
  /// y = factor·x if keep is 1, otherwise 0.
  void (*apply)(Index size, T* y, const T* x, const std::uint8_t* keep, T factor);
  /// dx += factor·dy if keep is 1.
  void (*apply_backward)(Index size, T* dx, const T* dy, const std::uint8_t* keep, T factor);
};

}  // namespace rossby::cpu
