#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/conformal.hpp"

namespace rossby {
namespace {

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

/// Fits quantiles to residuals (origins, rows) of one lead and feature.
ConformalQuantiles fitted(const std::vector<float>& residuals, Index rows, Transform transform = {}) {
  OneRankReducer reducer;
  ConformalQuantiles quantiles;
  quantiles.horizons = quantiles.features = 1;
  quantiles.transform = transform;
  quantiles.fit([&](Index, Index origin) { return residuals.data() + origin * rows; }, rows,
                std::ssize(residuals) / rows, reducer);
  return quantiles;
}

std::vector<float> noise(Index count, double scale, std::uint64_t seed) {
  const Random random(seed, "residuals");
  std::vector<float> values;
  for (Index k = 0; k < count; ++k)
    values.push_back(static_cast<float>(scale * random.normal(static_cast<std::uint64_t>(k))));
  return values;
}

TEST(ConformalQuantiles, AreTheResidualsOfTheirRanks) {
  std::vector<float> residuals = noise(41, 3, 1);
  residuals.push_back(missing);
  const ConformalQuantiles quantiles = fitted(residuals, 1);
  EXPECT_DOUBLE_EQ(quantiles.spread[0], 1);
  residuals.pop_back();
  std::sort(residuals.begin(), residuals.end());
  const auto of_rank = [&](Index rank) {
    return static_cast<double>(residuals[static_cast<std::size_t>(rank - 1)]);
  };
  EXPECT_EQ(quantiles.quantile(0, 1, 0, 0, 0.95), of_rank(40)) << "⌈42 · 0.95⌉";
  EXPECT_EQ(quantiles.quantile(0, 1, 0, 0, 0.75), of_rank(32)) << "⌈42 · 0.75⌉";
  EXPECT_EQ(quantiles.quantile(0, 1, 0, 0, 0.5), of_rank(21));
  EXPECT_EQ(quantiles.quantile(0, 1, 0, 0, 0.05), of_rank(2)) << "⌊42 · 0.05⌋";
  EXPECT_EQ(quantiles.quantile(0, 1, 0, 0, 0.995), of_rank(41));
  EXPECT_EQ(quantiles.quantile(7, 1, 0, 0, 0.005), 7 + of_rank(1));
  EXPECT_NEAR(quantiles.quantile(0, 1, 0, 0, 0.9525), 0.5 * (of_rank(40) + of_rank(41)), 1e-6);
}

TEST(ConformalQuantiles, AreAsWideAsTheirNodesResiduals) {
  constexpr Index origins = 400;
  const std::vector<float> narrow = noise(origins, 1, 2), wide = noise(origins, 10, 3);
  std::vector<float> residuals;
  for (std::size_t o = 0; o < origins; ++o) residuals.insert(residuals.end(), {narrow[o], wide[o]});
  const ConformalQuantiles quantiles = fitted(residuals, 2);
  const auto width = [&](Index row) {
    return quantiles.quantile(0, 1, row, 0, 0.95) - quantiles.quantile(0, 1, row, 0, 0.05);
  };
  EXPECT_NEAR(width(0), 2 * 1.645, 0.8) << "shrunk towards the other node";
  EXPECT_NEAR(width(1), 20 * 1.645, 2);
}

TEST(ConformalQuantiles, StayInTheRangeOfATransform) {
  const Transform log = Transform::of("log", 0.5);
  const ConformalQuantiles quantiles = fitted(noise(99, 2, 4), 1, log);
  EXPECT_GT(quantiles.quantile(0.1, 1, 0, 0, 0.005), -0.5);
  const double ratio = (quantiles.quantile(4, 1, 0, 0, 0.9) + 0.5) / 4.5;
  EXPECT_NEAR((quantiles.quantile(9, 1, 0, 0, 0.9) + 0.5) / 9.5, ratio, 1e-9);
}

TEST(ConformalQuantiles, WithoutResidualsThereAreNone) {
  const ConformalQuantiles quantiles = fitted({missing, missing}, 1);
  EXPECT_TRUE(std::isnan(quantiles.quantile(0, 1, 0, 0, 0.5)));
  const ConformalQuantiles no_rows = fitted({}, 1);
  EXPECT_TRUE(std::isnan(no_rows.at(1, 0).front()));
}

TEST(ConformalQuantiles, EqualResidualsHaveNoWidth) {
  const ConformalQuantiles quantiles = fitted(std::vector<float>(20, 0), 1);
  EXPECT_EQ(quantiles.quantile(3, 1, 0, 0, 0.95), 3);
}

TEST(IntervalErrors, CountsWhatIsInside) {
  const ConformalQuantiles quantiles = fitted(noise(2000, 2, 5), 1);
  constexpr Index targets = 4000;
  const std::vector<float> drawn = noise(targets, 2, 6);
  std::vector<double> forecast(targets, 10), observed;
  for (const float x : drawn) observed.push_back(10 + static_cast<double>(x));
  observed.push_back(missing);
  forecast.push_back(0);
  std::vector<Index> steps(targets + 1);
  IntervalErrors errors(quantiles, 1, {});
  errors.add({0, 1, steps, 0, 1, 1, 1, forecast.data(), observed.data()});
  OneRankReducer reducer;
  const IntervalScores scores = errors.reduce(reducer)[0];
  EXPECT_EQ(scores.weight, targets);
  EXPECT_NEAR(scores.inside_50, 0.5, 0.03);
  EXPECT_NEAR(scores.inside_90, 0.9, 0.02);
  EXPECT_NEAR(scores.width_90, 4 * 1.645, 0.3);
  // For a normal forecast with the correct spread σ, the CRPS is σ / √π on average.
  EXPECT_NEAR(scores.crps, 2 / std::sqrt(M_PI), 0.03);
  for (const double share : scores.pit) EXPECT_NEAR(share, 0.1, 0.03);
}

std::vector<Coverage> left_out(const std::vector<float>& residuals, Index rows) {
  OneRankReducer reducer;
  ConformalQuantiles like;
  like.horizons = like.features = 1;
  return left_out_coverage(
      like, [&](Index, Index origin) { return residuals.data() + origin * rows; }, rows,
      std::ssize(residuals) / rows, reducer);
}

TEST(LeftOutCoverage, OfResidualsThatAreAlikeIsNominal) {
  const std::vector<Coverage> found = left_out(noise(4000, 3, 11), 4);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].interval_50, 0.5, 0.03);
  EXPECT_NEAR(found[0].interval_90, 0.9, 0.02);
}

TEST(LeftOutCoverage, DoesNotSeeTheBlockThatItScores) {
  std::vector<float> residuals = noise(1000, 1, 12);
  for (std::size_t o = 400; o < 600; ++o) residuals[o] = 1000;
  const std::vector<Coverage> found = left_out(residuals, 1);
  // The fifth lies outside all intervals of the others. A quarter of what the others are compared with is
  // 1000, so that 5 % of it are 1/15 of the normal ones.
  EXPECT_NEAR(found[0].interval_90, 0.8 * (1 - 1.0 / 15), 0.01);
}

TEST(LeftOutCoverage, NeedsResidualsInSeveralBlocks) {
  EXPECT_TRUE(left_out(noise(least_left_out_origins - 1, 1, 13), 1).empty());
  EXPECT_TRUE(std::isnan(left_out(std::vector<float>(20, missing), 1)[0].interval_50));
  std::vector<float> residuals(20, missing);
  for (std::size_t o = 0; o < 4; ++o) residuals[o] = 1;
  EXPECT_TRUE(std::isnan(left_out(residuals, 1)[0].interval_90)) << "the other blocks have none";
}

}  // namespace
}  // namespace rossby
