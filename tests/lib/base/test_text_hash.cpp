#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/text_hash.hpp"

namespace rossby {
namespace {

std::uint64_t hash_of(std::string_view text) {
  TextHash hash;
  hash.add(text);
  return hash.value();
}

TEST(TextHash, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xCBF29CE484222325ull);
  EXPECT_EQ(hash_of("a"), 0xAF63DC4C8601EC8Cull);
  EXPECT_EQ(hash_of("foobar"), 0x85944171F73967E8ull);
}

TEST(TextHash, DoesNotDependOnThePieces) {
  TextHash hash;
  hash.add_format("{} nodes at ", 3);
  hash.add_list(std::vector<double>{0.5, -1, 2e300});
  hash.add("; ");
  hash.add_list(std::vector<int>{});
  hash.add_list(std::vector<int>{7});
  EXPECT_EQ(hash.value(), hash_of("3 nodes at 0.5 -1 2e+300; 7"));
}

}  // namespace
}  // namespace rossby
