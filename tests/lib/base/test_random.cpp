#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"

namespace rossby {
namespace {

TEST(Random, IsAFunctionOfSeedStreamKeyAndCounter) {
  const Random a(7, "init.z");
  EXPECT_EQ(a.bits(3), Random(7, "init.z").bits(3));
  EXPECT_NE(a.bits(3), a.bits(4));
  EXPECT_NE(a.bits(3), Random(8, "init.z").bits(3));
  EXPECT_NE(a.bits(3), Random(7, "init.w").bits(3));
  EXPECT_NE(a.bits(3), a.at(0).bits(3));
  EXPECT_NE(a.at(0).bits(3), a.at(1).bits(3));
}

TEST(Random, HasTheMomentsOfItsDistributions) {
  const Random random(1, "moments");
  const int n = 200000;
  double u1 = 0, u2 = 0, g1 = 0, g2 = 0, g4 = 0;
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    u1 += u;
    u2 += u * u;
    const double g = random.at(1).normal(i);
    g1 += g;
    g2 += g * g;
    g4 += g * g * g * g;
  }
  EXPECT_NEAR(u1 / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(u2 / n, 1.0 / 3, 0.003);
  EXPECT_NEAR(g1 / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(g2 / n, 1, 0.015);
  EXPECT_NEAR(g4 / n, 3, 0.1);
}

TEST(Permutation, VisitsEveryElementOnce) {
  for (const Index size : {0, 1, 2, 3, 5, 16, 17, 1000, 4099}) {
    const Permutation permutation(Random(5, "order"), size);
    std::set<Index> seen;
    for (Index i = 0; i < size; ++i) {
      const Index x = permutation(i);
      EXPECT_GE(x, 0);
      EXPECT_LT(x, size);
      seen.insert(x);
    }
    EXPECT_EQ(static_cast<Index>(seen.size()), size);
  }
}

TEST(Permutation, IsTheSameLookedUpTogether) {
  for (const Index size : {1, 2, 5, 255, 256, 257, 1000, 4099, 16384, 16385})
    for (const Index first : {Index{0}, size / 3, size - 1}) {
      const Permutation permutation(Random(6, "order"), size);
      std::vector<Index> elements(static_cast<std::size_t>(std::min<Index>(size - first, 700)), -1);
      permutation.look_up(first, elements);
      for (std::size_t q = 0; q < elements.size(); ++q)
        ASSERT_EQ(elements[q], permutation(first + static_cast<Index>(q))) << size << ", element " << q;
      permutation.look_up(size, std::span<Index>());
      std::vector<Index> more(static_cast<std::size_t>(size - first));
      EXPECT_THROW(permutation.look_up(first + 1, more), BugError);
    }
  EXPECT_DOUBLE_EQ(Permutation(Random(6, "order"), 24000).walks(), 65536.0 / 24000);
}

TEST(Permutation, LooksUniform) {
  // Position of element 0 over many keys: chi-square with 15 degrees of freedom, below the 99.99 % quantile.
  std::vector<int> counts(16, 0);
  const int trials = 16000;
  for (int k = 0; k < trials; ++k)
    ++counts[static_cast<std::size_t>(Permutation(Random(9, "x").at(k), 16)(0))];
  double chi2 = 0;
  for (const int c : counts) chi2 += (c - trials / 16.0) * (c - trials / 16.0) / (trials / 16.0);
  EXPECT_LT(chi2, 44.3);
}

}  // namespace
}  // namespace rossby
