#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

// What the other tests of this program rely on: accesses beyond the end of a vector end the program.
// Sanitizers, which replace tests/support/fenced_new.cpp, find them too.

namespace rossby {
namespace {

TEST(FencedNew, AccessesBeyondTheEndCrash) {
  volatile float sum = 0;
  EXPECT_DEATH(
      {
        const std::vector<float> values(100);
        const volatile float* all = values.data();
        sum = sum + all[100];
      },
      "");
  EXPECT_DEATH(
      {
        std::vector<char> values(1001);
        volatile char* all = values.data();
        all[1001] = 1;
      },
      "");
}

TEST(FencedNew, VectorsOfEverySizeAreWhole) {
  for (std::size_t size = 0; size < 9000; size = size * 3 / 2 + 1) {
    std::vector<float> values(size, 1);
    values.resize(size + 7, 2);
    for (std::size_t k = 0; k < size; ++k) ASSERT_EQ(values[k], 1);
    ASSERT_EQ(values[size + 6], 2);
  }
}

}  // namespace
}  // namespace rossby
