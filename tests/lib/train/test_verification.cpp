#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/verification.hpp"

namespace rossby {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

TEST(ScoreMoments, AreScores) {
  ScoreMoments m;
  m.add(1, 3, 1, 2);   // anomalies 1, −1
  m.add(3, 5, 6, 4);   // 1, 2
  m.add(1, 0, 0, -1);  // 1, 1
  EXPECT_NEAR(m.rmse(), std::sqrt((4 + 3.0) / 5), 1e-12);
  EXPECT_NEAR(m.mae(), (2 + 3.0) / 5, 1e-12);
  EXPECT_NEAR(m.bias(), (2 - 3.0) / 5, 1e-12);
  EXPECT_TRUE(std::isnan(m.acc())) << "forecast anomalies do not vary";
  m.add(1, 9, 7, 4);  // 5, 3
  const double f = 10.0 / 6, o = 9.0 / 6, ff = 30.0 / 6 - f * f, oo = 23.0 / 6 - o * o, fo = 21.0 / 6 - f * o;
  EXPECT_NEAR(m.acc(), fo / std::sqrt(ff * oo), 1e-12);
  EXPECT_TRUE(std::isnan(ScoreMoments{}.rmse()));
  m.add(1, none, 1, 0);
  EXPECT_TRUE(std::isnan(m.rmse())) << "a diverged forecast does not hide";
}

/// Two rows, steps 4 and 5. Forecasts are 1 above the observations of row 0 and 2 below those of row 1.
struct Case {
  std::vector<Index> steps{4, 5};
  std::vector<double> forecast{2, 3, 5, 6}, observed{1, 2, 7, none};
  std::vector<float> zero{0, 0};
  ScoredValues values() const { return {0, 1, steps, 0, 2, 1, 2, forecast.data(), observed.data()}; }
};

TEST(Verification, ScoresSlicesWithWeights) {
  const Case c;
  Slices slices;
  slices.weights = {1, 3};
  slices.time_kind = "month";
  slices.times = {"a", "b"};
  slices.time_of_step = {0, 0, 0, 0, 0, 1};
  slices.regions = {"second"};
  slices.inside = {{0, 1}};
  Verification verification(1, 1, {}, slices, [&](Index) { return c.zero.data(); });
  verification.add(c.values());
  OneRankReducer reducer;
  verification.reduce(reducer);
  ASSERT_EQ(slices.all().size(), 4U);
  EXPECT_NEAR(verification.at(0, 0, 0, 1).bias(), (1 + 1 - 3 * 2.0) / 5, 1e-12);
  EXPECT_EQ(verification.at(0, 0, 0, 1).number, 3);
  EXPECT_NEAR(verification.at(1, 0, 0, 1).bias(), (1 - 3 * 2.0) / 4, 1e-12) << "step 4";
  EXPECT_NEAR(verification.at(2, 0, 0, 1).bias(), 1, 1e-12) << "step 5: row 1 is missing";
  EXPECT_NEAR(verification.at(3, 0, 0, 1).bias(), -2, 1e-12) << "row 1";
}

TEST(Verification, KeepsNodesAndPartsApart) {
  const Case c;
  NodeMoments nodes(2, 1, 1, [&](Index) { return c.zero.data(); });
  nodes.add(c.values());
  EXPECT_EQ(nodes.at(1, 0, 0).bias(), 1);
  EXPECT_EQ(nodes.at(1, 1, 0).bias(), -2);
  EXPECT_EQ(nodes.at(1, 1, 0).number, 1);
  const std::vector<double> forecast{1, 5}, observed{0, 0};
  const std::vector<Index> step{4};
  const Slices all;
  Verification verification(1, 1, {1, 1}, all, [&](Index) { return c.zero.data(); });
  verification.add({0, 1, step, 0, 1, 2, 1, forecast.data(), observed.data()});
  EXPECT_EQ(verification.at(0, 0, 0, 1).bias(), 1);
  EXPECT_EQ(verification.at(0, 1, 0, 1).bias(), 5);
}

}  // namespace
}  // namespace rossby
