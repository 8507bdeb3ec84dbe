#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace rossby {

/// Numbers below the smallest normal one count as zero in this thread while this lives, and in threads that
/// it starts meanwhile. Values that only their decay moves, and gradients through them, end there after some
/// hundred steps, and arithmetic on them takes a hundred times as long. Does nothing on other processors than
/// x86-64. Always inline: sources compiled for different instruction sets share no function.
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
