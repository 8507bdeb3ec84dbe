#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/average_weights.hpp"

namespace rossby {
namespace {

using Numbers = std::vector<double>;

/// Returns the smallest error over a fine lattice of all weights of three members.
double least_on_lattice(const Numbers& gram) {
  double least = std::numeric_limits<double>::infinity();
  constexpr int n = 50;
  for (int i = 0; i <= n; ++i)
    for (int j = 0; i + j <= n; ++j)
      least =
          std::min(least, mean_square(gram, Numbers{i / double{n}, j / double{n}, (n - i - j) / double{n}}));
  return least;
}

void expect_weights(const Numbers& found, const Numbers& wanted, double tolerance = 1e-9) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], wanted[k], tolerance) << k;
}

TEST(StackingWeights, TwoMembersHaveTheClosedForm) {
  // w1 = (g22 − g12) / (g11 + g22 − 2·g12), clamped to [0, 1].
  expect_weights(stacking_weights(Numbers{4, 1, 1, 2}), {0.25, 0.75});
  expect_weights(stacking_weights(Numbers{1, 0, 0, 1}), {0.5, 0.5});
  expect_weights(stacking_weights(Numbers{4, 2.5, 2.5, 2}), {0, 1});  // negative without the clamp
}

TEST(StackingWeights, OneMemberAndMembersWithoutErrors) {
  expect_weights(stacking_weights(Numbers{3}), {1});
  expect_weights(stacking_weights(Numbers{0}), {1});
  expect_weights(stacking_weights(Numbers{1, 0, 0, 0}), {0, 1});
  expect_weights(stacking_weights(Numbers{0, 0, 0, 0}), {1, 0});
  expect_weights(inverse_error_weights(Numbers{1, 0, 0, 0}), {0, 1});
  expect_weights(inverse_error_weights(Numbers{0, 0, 0, 0}), {0.5, 0.5});
}

TEST(StackingWeights, EqualMembersDoNotDivideByZero) {
  expect_weights(stacking_weights(Numbers{2, 2, 2, 2}), {1, 0});
  expect_weights(stacking_weights(Numbers{2, 2, 1, 2, 2, 1, 1, 1, 2}), {0.5, 0, 0.5});
}

TEST(StackingWeights, NoWeightsOnALatticeAreBetter) {
  const Random random(7, "errors");
  std::uint64_t number = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Numbers errors(12), gram(9);  // (3 members, 4 errors), different in size, correlated
    for (std::size_t k = 0; k < errors.size(); ++k) {
      const double common = random.uniform(1000 + number / 12 * 4 + k % 4);
      errors[k] = 0.6 * common + (1 + static_cast<double>(k / 4)) * (random.uniform(number) - 0.5);
      ++number;
    }
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        for (std::size_t e = 0; e < 4; ++e) gram[i * 3 + j] += errors[i * 4 + e] * errors[j * 4 + e];
    const Numbers weights = stacking_weights(gram);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-9);
    for (const double weight : weights) EXPECT_GE(weight, 0);
    EXPECT_LE(mean_square(gram, weights), least_on_lattice(gram) + 1e-9);
  }
}

TEST(InverseErrorWeights, GoDownWithTheSquaredError) {
  expect_weights(inverse_error_weights(Numbers{1, 9, 9, 3}), {0.75, 0.25});
  const double huge = 1e300, tiny = 1e-300;
  expect_weights(inverse_error_weights(Numbers{huge, 0, 0, tiny}), {0, 1});
}

TEST(ErrorGrams, LeaveOutWhatIsNotObserved) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ErrorGram gram(2, 2, {1});
  const float a[] = {1, 2, 7}, b[] = {2, 0, nan}, target[] = {0, 1, nan};
  const float* both[] = {a, b};
  gram.add(2, both, target, 3);
  OneRankReducer reducer;
  gram.reduce(reducer);
  EXPECT_EQ(gram.count(1), 0);
  EXPECT_EQ(gram.count(2), 2);
  EXPECT_EQ(gram.lost(0) + gram.lost(1), 0);  // without a target, nothing is lost
  expect_weights(gram.mean(2, false), {1, 0.5, 0.5, 2.5});
  expect_weights(gram.mean(1, false), {0, 0, 0, 0});
}

TEST(ErrorGrams, CountWhatAMemberLacks) {
  const float inf = std::numeric_limits<float>::infinity();
  ErrorGram gram(2, 1, {1});
  const float a[] = {1, inf}, b[] = {2, 0}, target[] = {0, 1};
  const float* both[] = {a, b};
  gram.add(1, both, target, 2);
  EXPECT_EQ(gram.lost(0), 1);
  EXPECT_EQ(gram.lost(1), 0);
  EXPECT_EQ(gram.count(1), 1);
}

TEST(ErrorGrams, VariablesOfDifferentUnitsCountAlike) {
  // For the first variable, which has large values, member 0 is better; for the second variable, member 1.
  ErrorGram gram(2, 1, {1, 1});
  const float a[] = {1000, 2}, b[] = {2000, 1}, target[] = {0, 0};
  const float* both[] = {a, b};
  gram.add(1, both, target, 1);
  expect_weights(inverse_error_weights(gram.mean(1, true)), {0.5, 0.5});
  EXPECT_GT(inverse_error_weights(gram.mean(1, false))[0], 0.79);
}

}  // namespace
}  // namespace rossby
