#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr Index mebi = Index{1} << 20;

std::uintptr_t address(const Buffer<float>& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

TEST(Buffer, IsZeroAndOfItsSizeAtAnyOfTheWaysToGetMemory) {
  for (const Index size : {Index{1}, Index{1000}, mebi / 16, mebi, 4 * mebi + 3}) {
    Buffer<float> buffer(size);
    EXPECT_EQ(address(buffer) % 64, 0U);
    for (Index i = 0; i < size; ++i) ASSERT_EQ(buffer[i], 0.0F) << i;
    for (Index i = 0; i < size; ++i) buffer[i] = 1;
  }
}

#if defined(__linux__)
TEST(Buffer, LargeOnesLieAtDifferentPlacesOf256MiB) {
  // The allocations of a dense relation: values and moments of one size, one after the other.
  for (const Index values : {3 * mebi, 16 * mebi, 64 * mebi}) {
    std::vector<Buffer<float>> buffers;
    std::set<std::uintptr_t> places;
    for (int k = 0; k < 12; ++k) {
      buffers.emplace_back(values);
      EXPECT_EQ(address(buffers.back()) % (2 * mebi), 0U) << "huge pages";
      places.insert(address(buffers.back()) % (256 * mebi));
    }
    EXPECT_EQ(places.size(), buffers.size());
  }
}

TEST(Buffer, ThatDoesNotFitIsAnError) {
  EXPECT_THROW(Buffer<float>(Index{1} << 44), UserError);
}
#endif

}  // namespace
}  // namespace rossby
