#include <cmath>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/train/paired_skill.hpp"

namespace rossby {
namespace {

/// Returns squared errors of a forecaster. The variance at an origin is level · (shared + own · noise). All
/// forecasters have the same slowly changing part `shared`.
OriginErrors errors_of(Index horizons, Index origins, double level, double own, std::uint64_t seed) {
  OriginErrors errors{horizons, origins, {}, {}};
  const Random random(seed, "errors");
  for (Index h = 0; h < horizons; ++h)
    for (Index o = 0; o < origins; ++o) {
      const double shared = 2 + std::sin(0.1 * static_cast<double>(o));
      const double noise = random.uniform(static_cast<std::uint64_t>(h * origins + o), -1, 1);
      errors.squares.push_back(4 * level * (shared + own * noise));
      errors.count.push_back(4);
    }
  return errors;
}

TEST(PairedSkill, IsOneMinusTheRatioOfMeanErrors) {
  const OriginErrors model = errors_of(3, 200, 0.81, 0, 1), baseline = errors_of(3, 200, 1, 0, 2);
  const PairedSkill paired = paired_skill(model, baseline);
  EXPECT_NEAR(paired.skill, 0.1, 1e-12);
  // Errors that differ by the same factor at every origin have no uncertainty.
  EXPECT_NEAR(paired.low, 0.1, 1e-12);
  EXPECT_NEAR(paired.high, 0.1, 1e-12);
  EXPECT_FALSE(paired.tie());
  EXPECT_GE(paired.block, 3);
  const PairedSkill other_way = paired_skill(baseline, model);
  EXPECT_NEAR(other_way.skill, 1 - 1 / 0.9, 1e-12);
  EXPECT_FALSE(other_way.tie());
}

TEST(PairedSkill, IntervalsHoldTheTruthAsOftenAsTheySay) {
  int held = 0;
  constexpr int tries = 60;
  for (int k = 0; k < tries; ++k) {
    const PairedSkill same = paired_skill(errors_of(2, 150, 1, 0.8, 100 + static_cast<std::uint64_t>(k)),
                                          errors_of(2, 150, 1, 0.8, 900 + static_cast<std::uint64_t>(k)));
    EXPECT_LT(same.low, same.skill);
    EXPECT_GT(same.high, same.skill);
    held += same.low <= 0 && same.high >= 0 ? 1 : 0;
    EXPECT_EQ(same.tie(), same.low <= 0 && same.high >= 0);
  }
  EXPECT_GE(held, tries * 85 / 100);
}

TEST(PairedSkill, DependentErrorsMakeLongBlocks) {
  OriginErrors model = errors_of(1, 400, 1, 0, 1), baseline = model;
  for (Index o = 0; o < 400; ++o)
    model.squares[static_cast<std::size_t>(o)] *= 1 + 0.5 * std::sin(2 * M_PI * static_cast<double>(o) / 100);
  const PairedSkill paired = paired_skill(model, baseline);
  EXPECT_GE(paired.block, 20);
  EXPECT_LE(paired.block, 100);
  EXPECT_TRUE(paired.tie());
}

TEST(PairedSkill, HorizonsWithoutTargetsAndFewOrigins) {
  OriginErrors model = errors_of(2, 40, 0.25, 0, 1), baseline = errors_of(2, 40, 1, 0, 1);
  for (Index o = 0; o < 40; ++o) {
    model.count[static_cast<std::size_t>(40 + o)] = baseline.count[static_cast<std::size_t>(40 + o)] = 0;
    model.squares[static_cast<std::size_t>(40 + o)] = baseline.squares[static_cast<std::size_t>(40 + o)] = 0;
  }
  EXPECT_NEAR(paired_skill(model, baseline).skill, 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(paired_skill(errors_of(2, 7, 1, 0, 1), errors_of(2, 7, 1, 0, 2)).low));
  for (double& count : model.count) count = 0;
  EXPECT_TRUE(std::isnan(paired_skill(model, model).skill));
}

}  // namespace
}  // namespace rossby
