#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace rossby {

/// Treats subnormal numbers as zero during its lifetime, in this thread and in threads started meanwhile.
/// Values that only decay, and gradients through them, become subnormal after some hundred steps. Arithmetic
/// on them takes a hundred times as long. Does nothing on processors other than x86-64. Always inline:
/// sources compiled for different instruction sets must not share functions.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  [[gnu::always_inline]] FlushSubnormals() : before_(_mm_getcsr()) {
    constexpr unsigned flush_results = 0x8000, operands_are_zero = 0x0040;
    _mm_setcsr(before_ | flush_results | operands_are_zero);
  }
  [[gnu::always_inline]] ~FlushSubnormals() {
    _mm_setcsr(before_);
  }

 private:
  unsigned before_;

 public:
#else
  FlushSubnormals() {}
  ~FlushSubnormals() {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
};

}  // namespace rossby
