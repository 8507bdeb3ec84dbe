#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/dressing.hpp"

namespace rossby {
namespace {

constexpr float not_observed = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normals(Index count, double deviation, std::uint64_t seed) {
  const Random random(seed, "dressing");
  std::vector<float> values;
  for (Index k = 0; k < count; ++k)
    values.push_back(static_cast<float>(deviation * random.normal(static_cast<std::uint64_t>(k))));
  return values;
}

/// Returns quantiles of one lead and feature from residuals (origins, rows).
ConformalQuantiles quantiles_of(const std::vector<float>& residuals, Index rows) {
  OneRankReducer reducer;
  ConformalQuantiles quantiles;
  quantiles.horizons = quantiles.features = 1;
  quantiles.fit([&](Index, Index origin) { return residuals.data() + origin * rows; }, rows,
                std::ssize(residuals) / rows, reducer);
  return quantiles;
}

/// Members with errors from their own noise and from shared noise, about a truth of 0: one row, one origin
/// per target.
struct Ensemble {
  Ensemble(Index targets, std::vector<double> shares, double own, double shared, std::uint64_t seed)
      : weights(std::move(shares)), average(static_cast<std::size_t>(targets)), observed(average) {
    const std::vector<float> common = normals(targets, shared, seed);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      members.push_back(normals(targets, own, seed + 1 + k));
      for (std::size_t t = 0; t < average.size(); ++t) {
        members[k][t] += common[t];
        average[t] += static_cast<float>(weights[k]) * members[k][t];
      }
    }
  }
  template <class Sums>
  void add_to(Sums& sums) const {
    for (std::size_t t = 0; t < average.size(); ++t) {
      std::vector<const float*> at;
      for (const std::vector<float>& member : members) at.push_back(&member[t]);
      sums.add({1, 1, at, weights, &average[t], &observed[t]});
    }
  }
  [[nodiscard]] ConformalQuantiles quantiles() const {
    std::vector<float> residuals;
    for (std::size_t t = 0; t < average.size(); ++t) residuals.push_back(observed[t] - average[t]);
    return quantiles_of(residuals, 1);
  }

  std::vector<double> weights;
  std::vector<std::vector<float>> members = {};
  std::vector<float> average, observed;
};

TEST(Dressing, QuantilesOfAMixtureAreThoseOfItsSortedParts) {
  const std::vector<double> members{0.3, -1.2, 4}, weights{0.5, 0.2, 0.3};
  std::vector<double> offsets;
  for (const float x : normals(ConformalQuantiles::levels, 1, 5)) offsets.push_back(static_cast<double>(x));
  std::sort(offsets.begin(), offsets.end());
  std::vector<std::pair<double, double>> parts;
  for (std::size_t k = 0; k < 3; ++k)
    for (const double offset : offsets) parts.emplace_back(members[k] + offset, weights[k]);
  std::sort(parts.begin(), parts.end());
  std::vector<double> mixed(ConformalQuantiles::levels);
  mix_quantiles(members, weights, offsets, mixed);
  for (Index level = 0; level < ConformalQuantiles::levels; ++level) {
    double reached = 0;
    std::size_t at = 0;
    while (reached + 1e-9 < static_cast<double>(level + 1)) reached += parts[at++].second;
    EXPECT_EQ(mixed[static_cast<std::size_t>(level)], parts[at - 1].first) << level;
  }
}

TEST(Dressing, OneMemberPredictsWhatItsIntervalsDo) {
  OneRankReducer reducer;
  const Ensemble ensemble(60, {1}, 1, 0.5, 7);
  ConformalQuantiles quantiles = ensemble.quantiles();
  DressingFit fit(quantiles);
  ensemble.add_to(fit);
  quantiles.dressing = fit.reduce(reducer);
  EXPECT_EQ(quantiles.dressing, std::vector<double>{1});
  DressedErrors dressed(quantiles, 1, {});
  ensemble.add_to(dressed);
  IntervalErrors plain(quantiles, 1, {});
  const std::vector<double> forecast(ensemble.average.begin(), ensemble.average.end()),
      observed(ensemble.observed.begin(), ensemble.observed.end());
  const std::vector<Index> steps(forecast.size());
  plain.add({0, 1, steps, 0, 1, 1, 1, forecast.data(), observed.data()});
  const IntervalScores a = dressed.reduce(reducer)[0], b = plain.reduce(reducer)[0];
  EXPECT_EQ(a.weight, 60);
  EXPECT_NEAR(a.crps, b.crps, 1e-12);
  EXPECT_NEAR(a.inside_50, b.inside_50, 1e-12);
  EXPECT_NEAR(a.inside_90, b.inside_90, 1e-12);
  EXPECT_NEAR(a.width_50, b.width_50, 1e-12);
  EXPECT_NEAR(a.width_90, b.width_90, 1e-12);
  for (std::size_t bin = 0; bin < a.pit.size(); ++bin) EXPECT_NEAR(a.pit[bin], b.pit[bin], 1e-12);
}

TEST(Dressing, TheMixtureHasTheVarianceOfTheErrors) {
  OneRankReducer reducer;
  const std::vector<double> weights{0.5, 0.3, 0.2};
  const Ensemble past(4000, weights, 1, 1, 11), now(4000, weights, 1, 1, 21);
  ConformalQuantiles quantiles = past.quantiles();
  DressingFit fit(quantiles);
  past.add_to(fit);
  quantiles.dressing = fit.reduce(reducer);
  // D = Σ wₖ (1 − 2 wₖ + Σ w²), R = 1 + Σ w².
  const double squares = 0.25 + 0.09 + 0.04, apart = 1 - squares, errors = 1 + squares;
  EXPECT_NEAR(quantiles.dressing[0], std::sqrt(1 - apart / errors), 0.02);
  DressedErrors dressed(quantiles, 1, {});
  now.add_to(dressed);
  const IntervalScores found = dressed.reduce(reducer)[0];
  EXPECT_NEAR(std::sqrt(found.variance / errors), 1, 0.03) << "spread / error";
  // The mixture represents the members' own errors, not the shared one.
  EXPECT_NEAR(found.inside_50, 0.5, 0.05);
  EXPECT_NEAR(found.inside_90, 0.9, 0.03);
}

TEST(Dressing, MembersThatAreTooFarApartAreNotDressed) {
  OneRankReducer reducer;
  Ensemble ensemble(50, {0.5, 0.5}, 3, 0, 31);
  ensemble.observed = ensemble.average;
  ensemble.observed[0] += 0.1F;
  ensemble.observed[1] = not_observed;
  ConformalQuantiles quantiles = ensemble.quantiles();
  DressingFit fit(quantiles);
  ensemble.add_to(fit);
  EXPECT_EQ(fit.reduce(reducer), std::vector<double>{0});
}

TEST(Dressing, ADivergedMemberIsNotHidden) {
  OneRankReducer reducer;
  Ensemble ensemble(20, {0.5, 0.5}, 1, 1, 41);
  ConformalQuantiles quantiles = ensemble.quantiles();
  quantiles.dressing = {1};
  ensemble.members[1][3] = std::numeric_limits<float>::infinity();
  DressedErrors dressed(quantiles, 1, {});
  ensemble.add_to(dressed);
  EXPECT_TRUE(std::isnan(dressed.reduce(reducer)[0].crps));
}

TEST(Dressing, RealizationsAreSharedOutByWeight) {
  const std::vector<double> weights{0.25, 0, 0.75};
  std::vector<double> of_first, of_last;
  for (Index r = 0; r < 40; ++r) {
    const Realization is = realization_of(r, 40, weights);
    ASSERT_NE(is.member, 1) << "it has no weight";
    (is.member == 0 ? of_first : of_last).push_back(is.quantile);
  }
  EXPECT_EQ(of_first.size(), 10U);
  for (std::vector<double>* quantiles : {&of_first, &of_last}) {
    std::sort(quantiles->begin(), quantiles->end());
    const auto count = static_cast<double>(quantiles->size());
    for (std::size_t k = 0; k < quantiles->size(); ++k)
      EXPECT_NEAR((*quantiles)[k], (static_cast<double>(k) + 0.5) / count, 1.5 / count);
  }
  EXPECT_EQ(realization_of(0, 1, weights).member, 2) << "the middle of the weights";
}

}  // namespace
}  // namespace rossby
