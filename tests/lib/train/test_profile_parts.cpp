#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/train/choice.hpp"
#include "rossby/train/halving.hpp"
#include "rossby/train/learning_curve.hpp"

namespace rossby {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::vector<CurvePoint> power_law(double offset, double height, double exponent, std::vector<Index> steps,
                                  double noise = 0, std::uint64_t seed = 1) {
  const Random random(seed, "test");
  std::vector<CurvePoint> points;
  for (const Index s : steps)
    points.push_back({s, (offset + height * std::pow(static_cast<double>(s), -exponent)) *
                             std::exp(noise * random.normal(static_cast<std::uint64_t>(s)))});
  return points;
}

double at(double offset, double height, double exponent, double steps) {
  return offset + height * std::pow(steps, -exponent);
}

/// With drift and spread of `trust`.
LogError extrapolated(std::span<const CurvePoint> points, Index steps, const CurveTrust& trust = {},
                      const CurveShapes& shapes = {}) {
  return with_trust(shapes.extrapolate(points, steps, steps), points.back().steps, steps, trust);
}

TEST(LearningCurve, FollowsPowerLawsWithAnOffset) {
  std::vector<Index> steps(40);
  for (std::size_t k = 0; k < steps.size(); ++k) steps[k] = static_cast<Index>(5 * (k + 1));
  for (const double exponent : {0.3, 0.5, 1.0})
    for (const double offset : {0.5, 2.0}) {
      const LogError found = extrapolated(power_law(offset, 3, exponent, steps), 800);
      const double truth = std::log(at(offset, 3, exponent, 800));
      EXPECT_NEAR(found.mean, truth, 0.06) << exponent << ' ' << offset;
      EXPECT_LT(std::abs(found.mean - truth), 2 * found.sd) << exponent << ' ' << offset;
    }
}

TEST(LearningCurve, IntervalsOfNoisyCurvesHoldTheTruth) {
  int held = 0;
  const int curves = 60;
  for (int k = 0; k < curves; ++k) {
    const auto seed = static_cast<std::uint64_t>(k);
    const Random random(seed, "curves");
    const double offset = random.uniform(0, 0.5, 1.5), exponent = random.uniform(1, 0.3, 0.9);
    const auto points = power_law(offset, 2, exponent, {4, 8, 16, 32, 64}, 0.01, seed);
    const LogError found = extrapolated(points, 1000);
    held += std::abs(found.mean - std::log(at(offset, 2, exponent, 1000))) < 1.645 * found.sd ? 1 : 0;
  }
  EXPECT_GE(held, 0.8 * curves);
}

TEST(LearningCurve, NoiseIsThatOfTheCurve) {
  std::vector<Index> steps(40);
  for (std::size_t k = 0; k < steps.size(); ++k) steps[k] = static_cast<Index>(5 * (k + 1));
  const CurveShapes shapes;
  EXPECT_LT(shapes.noise(power_law(1, 2, 0.5, steps), 400), 0.01);
  EXPECT_NEAR(shapes.noise(power_law(1, 2, 0.5, steps, 0.03), 400), 0.03, 0.015);
}

TEST(LearningCurve, UncertaintyGrowsWithTheWayAndFallsWithPoints) {
  const auto few = power_law(1, 2, 0.5, {4, 8}), many = power_law(1, 2, 0.5, {4, 8, 16, 32, 64});
  EXPECT_LT(extrapolated(many, 128).sd, extrapolated(many, 1024).sd);
  EXPECT_LT(extrapolated(many, 1024).sd, extrapolated(few, 1024).sd);
  EXPECT_NEAR(extrapolated(many, 64).mean, std::log(many.back().error), 0.02);
  const std::vector<CurvePoint> one{{4, 1.0}};
  EXPECT_LT(extrapolated(one, 400).mean, 0);
  EXPECT_GT(extrapolated(one, 400).sd, 0.1);
}

TEST(LearningCurve, APointIsExtrapolatedLikeItsPeers) {
  const std::vector<Index> steps{4, 8, 16, 32, 64, 128, 256};
  const std::vector<CurvePoint> one{{8, 1.0}};
  CurveShapes flat, steep;
  for (int k = 0; k < 8; ++k) {
    flat.learn(power_law(1 + 0.1 * k, 0, 0.5, steps, 0.002, static_cast<std::uint64_t>(k)), 512);
    steep.learn(power_law(0.1, 2 + 0.2 * k, 0.5, steps, 0.002, static_cast<std::uint64_t>(k)), 512);
  }
  const CurveTrust sure{.spread = 0};
  EXPECT_NEAR(extrapolated(one, 512, sure, flat).mean, 0, 0.5 * std::abs(extrapolated(one, 512).mean));
  EXPECT_LT(extrapolated(one, 512, sure, flat).sd, 0.5 * extrapolated(one, 512, sure).sd);
  EXPECT_LT(extrapolated(one, 512, sure, steep).mean, -0.7);
}

TEST(LearningCurve, FollowsErrorsThatFallByAnOrderOfMagnitude) {
  std::vector<CurvePoint> points;
  const auto error_at = [](double step) { return 0.007 * (1 + 14 * (std::pow(step / 150, -0.5) - 1) / 9); };
  for (const Index step : {4, 6, 9, 12, 15, 18, 21, 24}) points.push_back({step, error_at(double(step))});
  const LogError found = CurveShapes().extrapolate(points, 150, 150);
  EXPECT_NEAR(found.mean, std::log(0.007), 0.35);
  EXPECT_LT(std::abs(found.mean - std::log(0.007)), 2 * found.sd);
}

TEST(LearningCurve, OtherShapesCountByTheirWeight) {
  const std::vector<Index> steps{4, 8, 16, 32, 64, 128, 256};
  const std::vector<CurvePoint> one{{8, 1.0}};
  CurveShapes steep;
  for (int k = 0; k < 8; ++k)
    steep.learn(power_law(0.1, 2 + 0.2 * k, 0.5, steps, 0.002, static_cast<std::uint64_t>(k)), 512);
  double before = CurveShapes().extrapolate(one, 512, 512).mean;
  for (const double weight : {0.05, 0.25, 1.0}) {
    CurveShapes pooled;
    pooled.learn(steep, weight);
    const double mean = pooled.extrapolate(one, 512, 512).mean;
    EXPECT_LT(mean, before - 0.05) << weight;
    before = mean;
  }
  EXPECT_EQ(before, steep.extrapolate(one, 512, 512).mean);
}

TEST(LearningCurve, BadPointsAreBugs) {
  const CurveShapes shapes;
  EXPECT_THROW((void)shapes.extrapolate({}, 10, 10), BugError);
  EXPECT_THROW((void)shapes.extrapolate(std::vector<CurvePoint>{{4, 0.0}}, 10, 10), BugError);
  EXPECT_THROW((void)shapes.extrapolate(std::vector<CurvePoint>{{4, std::nan("")}}, 10, 10), BugError);
  EXPECT_THROW((void)shapes.extrapolate(std::vector<CurvePoint>{{4, 1.0}, {4, 1.0}}, 10, 10), BugError);
}

TEST(LearningCurve, TrustIsLearnedFromWhatCameTrue) {
  const CurveTrust prior;
  std::vector<CurveCheck> good, bad;
  for (int k = 0; k < 12; ++k) {
    good.push_back({100, 200, {0, 0.01}, 1.0});
    bad.push_back({100, 200, {0, 0.01}, k % 2 == 0 ? 1.2 : 1 / 1.2});
  }
  EXPECT_LT(learn_trust(good, {}, prior).spread, prior.spread);
  EXPECT_GT(learn_trust(bad, {}, prior).spread, 0.15);
  EXPECT_EQ(learn_trust({}, {}, prior).spread, prior.spread);
  const std::vector<CurveCheck> ends(20, CurveCheck{900, 1000, {0, 0.01}, 0.9});
  const CurveTrust learned = learn_trust({}, ends, prior);
  EXPECT_NEAR(learned.gain, std::log(0.9), 0.02);
  EXPECT_EQ(learn_trust({}, {}, prior).gain, prior.gain);
}

TEST(Choice, ProbabilitiesAndRegretsAreThoseOfTheDistributions) {
  const CurveTrust trust{.gain = 0, .gain_sd = 0};
  const double s = 0.05, d = 0.04;
  const std::vector<Contender> two{{{0, s}}, {{d, s}}};
  const auto found = chances(two, trust, 7);
  const double better = 0.5 * std::erfc(-d / (2 * s));
  EXPECT_NEAR(found[0].probability_best, better, 0.02);
  EXPECT_NEAR(found[0].probability_best + found[1].probability_best, 1, 1e-9);
  EXPECT_LT(found[0].regret, found[1].regret);
  EXPECT_NEAR(found[0].low, std::exp(-1.645 * s), 0.006);
  EXPECT_NEAR(found[0].high, std::exp(1.645 * s), 0.006);
  EXPECT_EQ(least_regret(found), 0);
  EXPECT_EQ(chances(two, trust, 7)[0].regret, found[0].regret);
}

TEST(Choice, UncertainErrorsAreDrawnTowardsWhatIsExpected) {
  const std::vector<double> alike(4, 0.0);
  const auto shrunk = [](std::vector<Contender> all, const std::vector<double>& expected) {
    shrink(all, expected);
    return all;
  };
  // Three errors are known well, and one from a far extrapolation.
  const std::vector<Contender> four = {{{0, 0.01}}, {{0.02, 0.01}}, {{0.04, 0.01}}, {{-0.2, 0.2}}};
  const auto found = shrunk(four, alike);
  EXPECT_GT(found[3].error.mean, -0.06);
  EXPECT_LT(found[3].error.mean, 0);
  EXPECT_LT(found[3].error.sd, 0.1);
  EXPECT_NEAR(found[0].error.mean, 0, 0.002);
  // A model that does worse elsewhere is expected to do so here.
  EXPECT_NEAR(shrunk(four, {0, 0, 0, 0.15})[3].error.mean - found[3].error.mean, 0.15, 0.03);
  // What a common factor changes is the common level alone.
  const auto moved = shrunk(four, {0.3, 0.3, 0.3, 0.3});
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(moved[k].error.mean, found[k].error.mean, 1e-9);
  // Known errors stay, and where they differ much, little is shrunk.
  const auto wide = shrunk({{{0, 0}}, {{1, 0}}, {{2, 0}}, {{-0.2, 0.2}}}, alike);
  EXPECT_EQ(wide[1].error.mean, 1);
  EXPECT_EQ(wide[1].error.sd, 0);
  EXPECT_LT(wide[3].error.mean, -0.1);
  EXPECT_TRUE(shrunk({}, {}).empty());
  // A single one has no others.
  EXPECT_NEAR(shrunk({{{0.5, 0.3}}}, {0.1})[0].error.mean, 0.5, 1e-9);
}

TEST(Choice, KnownErrorsTiesAndBounds) {
  const CurveTrust trust{.gain = std::log(0.5), .gain_sd = 0};
  const auto equal = chances(std::vector<Contender>{{{0, 0}}, {{0, 0}}}, trust, 1);
  EXPECT_NEAR(equal[0].probability_best, 0.5, 1e-9);
  EXPECT_EQ(equal[0].regret, 0);
  EXPECT_EQ(equal[0].predicted, 1);
  const auto decayed = chances(std::vector<Contender>{{{0, 0}, infinite, true}, {{0, 0}}}, trust, 1);
  EXPECT_NEAR(decayed[0].predicted, 0.5, 1e-9);
  EXPECT_NEAR(decayed[1].regret, 1, 1e-9);
  const auto kept = chances(std::vector<Contender>{{{1, 0.1}, 0.8}}, trust, 1);
  EXPECT_NEAR(kept[0].high, 0.8, 1e-9);
  const auto other_seeds = chances(std::vector<Contender>{{.error = {0, 0}, .seeds = 0.02}}, trust, 1);
  EXPECT_NEAR(other_seeds[0].low, std::exp(-1.645 * 0.02), 0.003);
  EXPECT_NEAR(other_seeds[0].high, std::exp(1.645 * 0.02), 0.003);
  EXPECT_TRUE(chances({}, trust, 1).empty());
  EXPECT_EQ(least_regret({}), -1);
}

double spent(const std::vector<Rung>& rungs, const std::vector<CandidateCost>& costs) {
  std::vector<std::vector<Index>> at(costs.size(),
                                     std::vector<Index>(static_cast<std::size_t>(rungs.back().folds)));
  double sum = 0;
  for (const Rung& rung : rungs) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(rung.candidates); ++k) {
      sum += rung_cost(rung, costs[k], 4, at[k]);
      std::fill_n(at[k].begin(), rung.folds, rung_steps(rung, costs[k], 4));
    }
  }
  return sum;
}

TEST(Halving, RungsUseTheBudget) {
  const std::vector<CandidateCost> costs(16, CandidateCost{4000, 0.01, 0, 0.02});
  for (const Index folds : {1, 3}) {
    for (const double share : {0.01, 0.03, 0.1, 0.5}) {
      const double budget = share * static_cast<double>(folds) * 16 * 40;
      const auto rungs = plan_rungs(costs, folds, budget, 4);
      EXPECT_EQ(rungs.front().candidates, 16);
      EXPECT_LE(spent(rungs, costs), budget * 1.0001) << share;
      // With folds, the step to twice as many candidates on all of them may be too large.
      EXPECT_GE(spent(rungs, costs), budget * (folds == 1 ? 0.9 : 0.8)) << share;
    }
    const auto all = plan_rungs(costs, folds, 1e9, 4);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front().folds, folds);
    EXPECT_EQ(rung_steps(all.front(), costs.front(), 4), 4000);
  }
}

TEST(Halving, CandidatesHalveAndSharesDouble) {
  const std::vector<CandidateCost> costs(11, CandidateCost{100000, 0.01, 0, 0});
  const auto rungs = plan_rungs(costs, 3, 0.02 * 11 * 1000, 4);
  std::vector<Index> left, folds;
  for (std::size_t k = 0; k < rungs.size(); ++k) {
    left.push_back(rungs[k].candidates);
    folds.push_back(rungs[k].folds);
    if (k > 0) {
      EXPECT_NEAR(rungs[k].share, 2 * rungs[k - 1].share, 1e-12);
    }
  }
  EXPECT_EQ(left, (std::vector<Index>{11, 6, 3, 2}));
  EXPECT_EQ(folds, (std::vector<Index>{1, 1, 1, 3}));  // short series: all folds for the last ones only
}

TEST(Halving, DisturbedStepsDoNotCount) {
  EXPECT_EQ(undisturbed_step(std::vector<double>{0, 5, 6, 16}, 20), 1);
  EXPECT_EQ(undisturbed_step(std::vector<double>{0, 1, 11, 14}, 20), 3);  // not the first step
  EXPECT_EQ(undisturbed_step(std::vector<double>{2, 7}, 20), 5);
  EXPECT_EQ(undisturbed_step(std::vector<double>{2}, 20), 20);
}

TEST(Halving, CheapCandidatesTrainFartherOnARung) {
  std::vector<CandidateCost> costs{{1000, 1, 0, 0}, {1000, 0.1, 0, 0}, {1000, 1e-4, 0, 0}};
  set_paces(costs);
  EXPECT_EQ(costs[0].pace, 1);
  const Rung rung{0.02, 3};
  EXPECT_EQ(rung_steps(rung, costs[0], 4), 20);
  EXPECT_EQ(rung_steps(rung, costs[1], 4), 200);
  EXPECT_EQ(rung_steps(rung, costs[2], 4), 1000);
  EXPECT_NEAR(rung_cost(rung, costs[1], 4, std::vector<Index>{0}), 20, 1e-9);
  std::vector<CandidateCost> free{{1000, 0, 0, 0}, {1000, 1, 0, 0}};
  set_paces(free);
  EXPECT_EQ(free[1].pace, 1);
  EXPECT_EQ(rung_steps(rung, free[0], 4), 20);
}

TEST(Halving, FoldsAreCaughtUp) {
  const CandidateCost cost{1000, 1, 0.5, 0.25};
  EXPECT_NEAR(rung_cost({0.1, 2, 1}, cost, 4, std::vector<Index>{50, 0, 0}), 50 + 0.75, 1e-9);
  EXPECT_NEAR(rung_cost({0.1, 2, 3}, cost, 4, std::vector<Index>{50, 0, 100}), 50 + 100 + 2 * 0.75, 1e-9);
  EXPECT_EQ(rung_cost({0.1, 2, 3}, cost, 4, std::vector<Index>{100, 100, 1000}), 0);
}

TEST(Halving, ABudgetBelowTheFirstStepsIsRefused) {
  const std::vector<CandidateCost> costs(3, CandidateCost{1000, 1, 0, 0});
  EXPECT_THROW((void)plan_rungs(costs, 1, 11, 4), UserError);
  EXPECT_NO_THROW((void)plan_rungs(costs, 1, 12.5, 4));
  EXPECT_NO_THROW((void)plan_rungs(std::vector<CandidateCost>{3, CandidateCost{1000, 1, 0, 0}}, 5, 30, 4));
  EXPECT_TRUE(plan_rungs({}, 1, 1, 4).empty());
}

TEST(Halving, DearCandidatesAreLeftOutAndNamed) {
  std::vector<double> costs(4, 0.9);
  costs[1] = 1000;
  const std::vector<Index> ranking{2, 1, 0, 3};
  std::vector<Index> too_dear;
  EXPECT_EQ(promote(ranking, costs, 2, 5, 0, too_dear), (std::vector<Index>{2, 0}));
  EXPECT_EQ(too_dear, std::vector<Index>{1});
  too_dear.clear();
  EXPECT_TRUE(promote(ranking, costs, 2, 0, 0, too_dear).empty());
  // Cheap candidates leave room for more.
  const std::vector<Index> cheap{2, 0, 3};
  EXPECT_EQ(promote(cheap, costs, 1, 5, 2, too_dear), (std::vector<Index>{2, 0}));
  EXPECT_EQ(promote(cheap, costs, 1, 5, 0, too_dear), (std::vector<Index>{2}));
  costs[3] = 1e-4;  // the last one costs almost nothing
  EXPECT_EQ(promote(cheap, costs, 1, 5, 1, too_dear), (std::vector<Index>{2, 3}));
}

}  // namespace
}  // namespace rossby
