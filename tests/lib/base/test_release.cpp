#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/release.hpp"

namespace rossby {
namespace {

TEST(Release, GivesTheMemoryOfAVectorBack) {
  std::vector<double> values(1000, 1.0);
  release(values);
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(values.capacity(), 0U);
}

}  // namespace
}  // namespace rossby
