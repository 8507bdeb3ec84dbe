#include <limits>

#include <gtest/gtest.h>

#include "rossby/base/flush_subnormals.hpp"

namespace rossby {
namespace {

/// Half of the smallest normal number. The compiler cannot compute it in advance.
float half_of_least() {
  volatile float least = std::numeric_limits<float>::min();
  volatile float half = 0.5F;
  return least * half;
}

TEST(FlushSubnormals, LastsAsLongAsItLives) {
  EXPECT_GT(half_of_least(), 0.0F);
#if defined(__SSE2__)
  {
    const FlushSubnormals flush;
    EXPECT_EQ(half_of_least(), 0.0F);
  }
#endif
  EXPECT_GT(half_of_least(), 0.0F);
}

}  // namespace
}  // namespace rossby
