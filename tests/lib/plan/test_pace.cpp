#include <vector>

#include <gtest/gtest.h>

#include "rossby/plan/pace.hpp"

namespace rossby {
namespace {

/// Seconds that all rounds take, of trainings that take `before[k]` before they are measured; `shares` of
/// `each` that they were measured.
double rounds_of(Pace pace, const std::vector<double>& before, int rounds, double each,
                 std::vector<double>& shares) {
  double all = 0;
  shares.clear();
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < before.size(); ++k) {
      const double measured = pace.next();
      shares.push_back(measured / each);
      pace.took(k, round, before[k] + measured);
      all += before[k] + measured;
    }
  return all;
}

TEST(Pace, NothingIsCutWhereThereIsTime) {
  std::vector<double> shares;
  EXPECT_NEAR(rounds_of(Pace(3, 3, 2, 37), {2, 1, 3}, 3, 2, shares), 36, 1e-12);
  EXPECT_EQ(shares, std::vector<double>(9, 1.0));
}

TEST(Pace, LaterRoundsAreShorterWhereTheFirstTookLong) {
  std::vector<double> shares;
  // 4 s each: 48 s at full length.
  for (const double seconds : {46.0, 42.0, 38.0}) {
    const double all = rounds_of(Pace(4, 3, 2, seconds), {2, 2, 2, 2}, 3, 2, shares);
    EXPECT_LE(all, seconds);
    EXPECT_GT(all, seconds - 2) << "the time there is was used";
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(shares[k], 1) << "the first round says what is to come";
    EXPECT_LT(shares[4], 1);
    for (std::size_t k = 5; k < shares.size(); ++k)
      EXPECT_NEAR(shares[k], shares[4], 1e-12) << "all of them by as much: " << seconds;
  }
}

TEST(Pace, AShareIsMeasuredWhereNoTimeIsLeft) {
  std::vector<double> shares;
  (void)rounds_of(Pace(2, 3, 2, 5), {20, 20}, 3, 2, shares);
  for (std::size_t k = 2; k < shares.size(); ++k) EXPECT_EQ(shares[k], Pace::least);
}

TEST(Pace, OneRoundIsMeasuredAtFullLengthUntilItsTimeIsOver) {
  std::vector<double> shares;
  (void)rounds_of(Pace(3, 1, 2, 45), {20, 20, 20}, 1, 2, shares);
  EXPECT_EQ(shares, std::vector<double>(3, 1.0));
  (void)rounds_of(Pace(3, 1, 2, 5), {20, 20, 20}, 1, 2, shares);
  EXPECT_EQ(shares, (std::vector<double>{1, Pace::least, Pace::least}));
}

}  // namespace
}  // namespace rossby
