#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/run/profile_search.hpp"
#include "rossby/run/profile_state.hpp"

namespace rossby {
namespace {

ProfiledCandidate candidate(const std::string& name, const std::string& model,
                            const std::vector<std::vector<CurvePoint>>& curves) {
  ProfiledCandidate one;
  one.name = name;
  one.model = model;
  one.status = ProfiledCandidate::Status::running;
  one.cost = {1000, 0.01, 0, 0.01};
  one.epoch_steps = 10;
  for (const auto& curve : curves) {
    ProfiledFold fold;
    fold.curve = curve;
    for (const CurvePoint& point : curve) fold.best = std::min(fold.best, point.error);
    fold.steps = curve.empty() ? 0 : curve.back().steps;
    one.folds.push_back(fold);
  }
  return one;
}

std::vector<CurvePoint> falling(double end, Index steps, double height = 0.3) {
  std::vector<CurvePoint> curve;
  for (Index s = 10; s <= steps; s *= 2)
    curve.push_back({s, end * (1 + height * (std::pow(static_cast<double>(s) / 1000, -0.5) - 1) / 9)});
  return curve;
}

ProfileState state_of(std::vector<ProfiledCandidate> candidates, const std::vector<Rung>& rungs, Index rung) {
  ProfileState state;
  state.candidates = std::move(candidates);
  state.rungs = rungs;
  state.rung = rung;
  predict(state);
  return state;
}

TEST(ProfilePrediction, ErrorsThatRiseAgainKeepTheirBest) {
  std::vector<CurvePoint> rising;
  for (Index s = 10; s <= 320; s += 10)
    rising.push_back({s, s <= 100 ? 1 + 5 / static_cast<double>(s) : 1.05 + 0.002 * static_cast<double>(s)});
  const ProfileState state = state_of(
      {candidate("a", "gru", {rising}), candidate("b", "stid", {falling(0.9, 320)})}, {{0.32, 2}}, 1);
  EXPECT_NEAR(state.candidates[0].chances.predicted, 1.05, 0.06);
  EXPECT_GT(state.candidates[0].chances.low, 0.9);
}

TEST(ProfilePrediction, AFoldThatOnlySomeWereTrainedOnIsShifted) {
  std::vector<ProfiledCandidate> all = {candidate("a", "gru", {falling(1, 640), falling(2, 640)}),
                                        candidate("b", "gru", {falling(1.1, 640), falling(2.2, 640)}),
                                        candidate("c", "gru", {falling(1.2, 640), {}})};
  // The shift is known well, and candidates lie far apart, so that little is drawn towards their level.
  for (int k = 0; k < 20; ++k) {
    const double end = 0.5 + 0.1 * k;
    all.push_back(candidate(std::to_string(k), "gru", {falling(end, 640), falling(2 * end, 640)}));
  }
  const ProfileState state = state_of(all, {{0.64, 23, 1}, {0.64, 22, 2}}, 2);
  const Chances& both = state.candidates[0].chances;
  const Chances& one = state.candidates[2].chances;
  EXPECT_NEAR(one.predicted / both.predicted, 1.2, 0.1);
  EXPECT_GT(std::log(one.high / one.low), 2 * std::log(both.high / both.low));
  // If nobody knows the second fold, all are compared on the first one.
  const ProfileState first =
      state_of({candidate("a", "gru", {falling(1, 640), {}}), candidate("c", "gru", {falling(1.2, 640), {}})},
               {{0.64, 2, 1}}, 1);
  EXPECT_NEAR(first.candidates[0].chances.predicted, 1, 0.06);
  EXPECT_EQ(first.choice, 0);
}

TEST(ProfilePrediction, UncertainCandidatesStayBeforeThoseThatAreSurelyWorse) {
  ProfiledCandidate late = candidate("late", "dcrnn", {{{4, 1.6}}});
  late.expected = 1.2;  // its single point says little
  const ProfileState state = state_of(
      {candidate("best", "stid", {falling(1, 640)}), candidate("worse", "gru", {falling(1.08, 640)}), late},
      {{0.004, 3}}, 1);
  EXPECT_GT(state.candidates[2].chances.predicted, state.candidates[1].chances.predicted);
  EXPECT_EQ(ranking(state), (std::vector<Index>{0, 2, 1}));
  // A baseline that beats all does not blur the ranking of the candidates.
  ProfileState with_baseline = state;
  with_baseline.baselines.push_back({"persistence", 0.01, {}});
  predict(with_baseline);
  EXPECT_EQ(ranking(with_baseline), ranking(state));
}

TEST(ProfileSearch, ACertainChoiceIsConfirmedOnTheOtherFolds) {
  for (const Index folds : {1, 3}) {
    const std::vector<std::vector<CurvePoint>> none(static_cast<std::size_t>(folds - 1));
    const auto of = [&](double end) {
      auto curves = none;
      curves.insert(curves.begin(), falling(end, 640));
      return curves;
    };
    ProfileState state = state_of({candidate("a", "gru", of(1)), candidate("b", "stid", of(3)),
                                   candidate("c", "tgcn", of(4)), candidate("d", "dcrnn", of(5))},
                                  {{0.1, 4, 1}, {0.64, 4, 1}, {0.7, 3, 1}, {0.8, 2, folds}}, 2);
    state.allowed = 1000;
    decide(state);
    EXPECT_EQ(state.ended, folds == 1 ? "more budget would not change the choice" : "");
    EXPECT_EQ(state.rung, folds == 1 ? 2 : 3);
    EXPECT_TRUE(state.candidates[0].in_search());
  }
}

TEST(ProfilePrediction, SiblingsOfAModelLendTheirShape) {
  // Curves of gru are flat, those of stid fall by half.
  const ProfileState state = state_of(
      {candidate("gru-a", "gru", {falling(1, 640, 0)}), candidate("gru-b", "gru", {falling(1.02, 640, 0)}),
       candidate("gru-c", "gru", {{{10, 1.1}}}), candidate("stid-a", "stid", {falling(1, 640, 1)}),
       candidate("stid-b", "stid", {falling(1.02, 640, 1)}), candidate("stid-c", "stid", {{{10, 1.1}}}),
       // Candidates lie far apart, so that little is drawn towards their level.
       candidate("tgcn-a", "tgcn", {falling(0.1, 640)}), candidate("tgcn-b", "tgcn", {falling(10, 640)})},
      {{0.64, 8}}, 1);
  EXPECT_LT(state.candidates[5].chances.predicted, 0.9 * state.candidates[2].chances.predicted);
}

}  // namespace
}  // namespace rossby
