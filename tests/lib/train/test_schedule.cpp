#include <cmath>

#include <gtest/gtest.h>

#include "rossby/train/schedule.hpp"

namespace rossby {
namespace {

TEST(Schedule, PlateauFallsAfterMoreThanPatienceBadEpochsAndCountsAnew) {
  Schedule schedule({.kind = ScheduleKind::plateau, .lr = 1, .patience = 2, .ratio = 0.1, .min_lr = 0.05});
  EXPECT_TRUE(schedule.observe(1.0));
  EXPECT_FALSE(schedule.observe(1.0));      // 1 bad
  EXPECT_FALSE(schedule.observe(0.99995));  // 2: within the threshold is no improvement
  EXPECT_DOUBLE_EQ(schedule.rate(3), 1.0);
  EXPECT_FALSE(schedule.observe(2.0));  // 3 > patience
  EXPECT_DOUBLE_EQ(schedule.rate(4), 0.1);
  EXPECT_FALSE(schedule.finished());
  schedule.observe(1.0);
  schedule.observe(1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(6), 0.1);
  EXPECT_TRUE(schedule.observe(0.5));  // a new best resets the count
  schedule.observe(1.0);
  schedule.observe(1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(9), 0.1);
  schedule.observe(1.0);
  EXPECT_NEAR(schedule.rate(10), 0.01, 1e-15);
  EXPECT_TRUE(schedule.finished());
  EXPECT_EQ(schedule.best(), 0.5);
  EXPECT_EQ(schedule.since_best(), 3);
}

TEST(Schedule, EpochsCountWhereNotEachIsLookedAt) {
  Schedule schedule({.kind = ScheduleKind::plateau, .lr = 1, .patience = 8, .ratio = 0.1, .min_lr = 1e-5});
  schedule.observe(1.0, 4);
  schedule.observe(1.0, 4);
  schedule.observe(1.0, 4);  // 8 do not exceed patience
  EXPECT_EQ(schedule.since_best(), 8);
  EXPECT_DOUBLE_EQ(schedule.rate(12), 1);
  EXPECT_FALSE(schedule.observe(1.0, 0));  // out of turn
  EXPECT_EQ(schedule.since_best(), 8);
  schedule.observe(1.0, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(16), 0.1);
  EXPECT_TRUE(schedule.observe(0.5, 0)) << "the best counts whenever it comes";
  EXPECT_EQ(schedule.since_best(), 0);
}

TEST(Schedule, TheThresholdIsThatOfPlateausAlone) {
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::plateau}) {
    Schedule schedule({.kind = kind, .lr = 1, .threshold = 0.5});
    EXPECT_TRUE(schedule.observe(1.0));
    EXPECT_EQ(schedule.observe(0.9), kind == ScheduleKind::constant);
    EXPECT_EQ(schedule.since_best(), kind == ScheduleKind::constant ? 0 : 1);
    EXPECT_TRUE(schedule.observe(0.4));
  }
}

TEST(Schedule, NanIsNeverBetter) {
  Schedule schedule({.kind = ScheduleKind::constant, .lr = 1});
  EXPECT_FALSE(schedule.observe(NAN));
  EXPECT_FALSE(schedule.observe(INFINITY));
  EXPECT_TRUE(schedule.observe(3));
  EXPECT_FALSE(schedule.observe(NAN));
  EXPECT_EQ(schedule.best(), 3);
}

TEST(Schedule, LinearHoldsThenFalls) {
  const Schedule schedule(
      {.kind = ScheduleKind::linear, .lr = 2, .epochs = 101, .hold = 0.6, .final_share = 0.1});
  EXPECT_DOUBLE_EQ(schedule.rate(0), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(60), 2);
  EXPECT_NEAR(schedule.rate(80), 2 * 0.55, 1e-12);
  EXPECT_NEAR(schedule.rate(100), 0.2, 1e-12);
}

TEST(Schedule, StepFallsAtMilestonesToAFloor) {
  const Schedule schedule({.kind = ScheduleKind::step,
                           .lr = 0.01,
                           .epochs = 100,
                           .warmup = 2,
                           .ratio = 0.1,
                           .min_lr = 2e-6,
                           .milestones = {20, 30, 40, 50}});
  EXPECT_NEAR(schedule.rate(0), 0.01 / 3, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.rate(19), 0.01);
  EXPECT_NEAR(schedule.rate(20), 1e-3, 1e-15);
  EXPECT_NEAR(schedule.rate(39), 1e-4, 1e-16);
  EXPECT_NEAR(schedule.rate(40), 1e-5, 1e-17);
  EXPECT_DOUBLE_EQ(schedule.rate(50), 2e-6) << "1e-6 is below the floor";
  EXPECT_DOUBLE_EQ(schedule.rate(99), 2e-6);
  EXPECT_FALSE(schedule.finished());
}

TEST(Schedule, AFloorAboveTheRateDoesNotRaiseIt) {
  const Schedule schedule({.kind = ScheduleKind::step, .lr = 1e-6, .min_lr = 1e-5, .milestones = {1}});
  EXPECT_DOUBLE_EQ(schedule.rate(0), 1e-6);
  EXPECT_DOUBLE_EQ(schedule.rate(5), 1e-6);
}

TEST(Schedule, RatesOfLargerBatches) {
  EXPECT_DOUBLE_EQ(scaled_rate(0.01, RateScaling::none, 4), 0.01);
  EXPECT_DOUBLE_EQ(scaled_rate(0.01, RateScaling::linear, 4), 0.04);
  EXPECT_DOUBLE_EQ(scaled_rate(0.01, RateScaling::sqrt, 4), 0.02);
  EXPECT_DOUBLE_EQ(scaled_rate(0.01, RateScaling::linear, 0.5), 0.005);
}

TEST(Schedule, CosineWithWarmup) {
  const Schedule schedule(
      {.kind = ScheduleKind::cosine, .lr = 1, .epochs = 11, .warmup = 3, .final_share = 0});
  EXPECT_NEAR(schedule.rate(0), 0.25, 1e-12);
  EXPECT_NEAR(schedule.rate(5), 0.5, 1e-12);
  EXPECT_NEAR(schedule.rate(10), 0, 1e-12);
}

}  // namespace
}  // namespace rossby
