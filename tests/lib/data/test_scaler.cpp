#include <cmath>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::nan;

Series noisy_values(Index steps, Index rows, Index features) {
  Series series(steps, rows, features);
  const Random random(3, "test");
  for (Index c = 0; c < series.values.size(); ++c)
    series.values[c] = static_cast<float>(10 + 3 * random.normal(static_cast<std::uint64_t>(c)));
  return series;
}

/// Adds the contribution of another rank.
class SecondRank final : public Reducer {
 public:
  explicit SecondRank(std::vector<std::vector<double>> others) : others_(std::move(others)) {}
  void sum(std::span<double> values) override { add(values); }
  void sum(std::span<float>) override {}
  void max(std::span<double>) override {}
  void ordered_sum(std::span<double> values) override { add(values); }
  [[nodiscard]] Traffic sent() const override { return {}; }
  std::size_t calls = 0;

 private:
  void add(std::span<double> values) {
    ASSERT_LT(calls, others_.size());
    ASSERT_EQ(values.size(), others_[calls].size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += others_[calls][i];
    ++calls;
  }
  std::vector<std::vector<double>> others_;
};

TEST(Scaler, BringsValuesOfNodesToMeanZeroAndDeviationOne) {
  OneRankReducer alone;
  const std::vector<double> values{1e7 + 1, 5, 1e7 + 3, 5, 1e7 + 5, 5};  // three nodes, two channels
  const double step = std::sqrt(3.0 / 2);
  const auto scaled = scaled_over_nodes(values, 2, alone);
  const double expected[] = {-step, 0, 0, 0, step, 0};
  ASSERT_EQ(scaled.size(), std::size(expected));
  for (std::size_t k = 0; k < scaled.size(); ++k) EXPECT_NEAR(scaled[k], expected[k], 1e-6) << k;
  EXPECT_TRUE(scaled_over_nodes({}, 2, alone).empty());
}

TEST(Scaler, InputsAreScaledEvenIfTheTargetIsNot) {
  DataSettings data;
  data.center = data.spread = "none";
  data.factor = 3;
  EXPECT_EQ(input_scaler_spec(data).center, ScaleBy::global);
  EXPECT_EQ(input_scaler_spec(data).spread, ScaleBy::global);
  EXPECT_EQ(input_scaler_spec(data).factor, 1);
  data.center = "node";
  EXPECT_EQ(input_scaler_spec(data).center, ScaleBy::node);
  EXPECT_EQ(input_scaler_spec(data).spread, ScaleBy::global);
}

TEST(Scaler, PerNodeTrainingStepsOnly) {
  Series series = noisy_values(50, 3, 2);
  series.at(4, 1, 0) = nan;
  for (Index t = 30; t < 50; ++t) series.at(t, 0, 0) = 1e6f;  // later values must not leak into the fit
  const Split split = make_split(50, {.train = "30"});
  OneRankReducer reducer;
  const Scaler scaler = Scaler::fit(series, split, {ScaleBy::node, ScaleBy::node, 2.0}, reducer);
  const Series original = [&] {
    Series copy(series.steps, series.rows, series.features);
    std::copy(series.values.begin(), series.values.end(), copy.values.begin());
    return copy;
  }();
  scaler.apply(series);
  EXPECT_TRUE(std::isnan(series.at(4, 1, 0)));
  for (Index i = 0; i < 3; ++i)
    for (Index f = 0; f < 2; ++f) {
      double sum = 0, squares = 0, count = 0;
      for (Index t = 0; t < 30; ++t) {
        const double x = series.at(t, i, f);
        if (std::isnan(x)) continue;
        sum += x;
        squares += x * x;
        count += 1;
      }
      EXPECT_NEAR(sum / count, 0, 1e-6);
      EXPECT_NEAR(std::sqrt(squares / count), 2.0, 1e-6);
      EXPECT_NEAR(scaler.to_value(series.at(7, i, f), i, f), original.at(7, i, f), 1e-5);
      EXPECT_NEAR(scaler.error_factor(i, f) * (series.at(8, i, f) - series.at(7, i, f)),
                  original.at(8, i, f) - original.at(7, i, f), 1e-5);
    }
  const Scaler stored(3, 2, {scaler.center().begin(), scaler.center().end()},
                      {scaler.spread().begin(), scaler.spread().end()}, scaler.factor());
  stored.undo(series);
  EXPECT_NEAR(series.at(3, 2, 1), original.at(3, 2, 1), 1e-5);
  EXPECT_TRUE(std::isnan(series.at(4, 1, 0)));
}

TEST(Scaler, ConstantAndNeverObservedNodes) {
  Series series(4, 3, 1);
  for (Index t = 0; t < 4; ++t) {
    series.at(t, 0, 0) = 0.1f;  // not a binary fraction: its mean is rounded
    series.at(t, 1, 0) = nan;
    series.at(t, 2, 0) = static_cast<float>(t);
  }
  OneRankReducer reducer;
  const Split split = make_split(4, {.train = "3"});
  for (const ScaleBy level : {ScaleBy::node, ScaleBy::global}) {
    const Scaler scaler = Scaler::fit(series, split, {level, ScaleBy::node, 1}, reducer);
    EXPECT_NEAR(scaler.center()[1], (0.3 + 0 + 1 + 2) / 6, 1e-7) << "the mean of all nodes";
    // The others differ by 0, 0, 0, 1, 0, 1 from their own centers, and by 0.45 and so on from the common
    // one.
    const double offs =
        level == ScaleBy::node ? 2 : 3 * 0.45 * 0.45 + 0.55 * 0.55 + 0.45 * 0.45 + 1.45 * 1.45;
    EXPECT_NEAR(scaler.spread()[1], std::sqrt(offs / 6), 1e-6);
    EXPECT_EQ(scaler.unseen(), 1);
  }
  const Scaler scaler = Scaler::fit(series, split, {ScaleBy::node, ScaleBy::node, 1}, reducer);
  EXPECT_EQ(scaler.spread()[0], 1);
  EXPECT_NEAR(scaler.center()[0], 0.1, 1e-7);
  EXPECT_DOUBLE_EQ(scaler.center()[2], 1);
  EXPECT_DOUBLE_EQ(scaler.spread()[2], std::sqrt(2.0 / 3));
}

TEST(Scaler, GlobalValuesComeFromAllRanks) {
  Series series(3, 1, 1);
  for (Index t = 0; t < 3; ++t) series.at(t, 0, 0) = static_cast<float>(t);  // 0, 1 in training
  const Split split = make_split(3, {.train = "2"});
  // The other rank holds 4 and 7: mean 3, squared deviations 1 + 16.
  SecondRank reducer({{11, 2}, {17, 2}});
  const Scaler scaler = Scaler::fit(series, split, {ScaleBy::global, ScaleBy::global, 1}, reducer);
  EXPECT_EQ(reducer.calls, 2u);
  EXPECT_DOUBLE_EQ(scaler.center()[0], 3);
  EXPECT_DOUBLE_EQ(scaler.spread()[0], std::sqrt((9 + 4 + 17) / 4.0));
  // A rank without rows takes part in the same reductions.
  const Series empty(3, 0, 1);
  SecondRank same({{11, 2}, {17, 2}});
  EXPECT_EQ(Scaler::fit(empty, split, {ScaleBy::global, ScaleBy::global, 1}, same).center().size(), 0u);
  EXPECT_EQ(same.calls, 2u);
}

TEST(Scaler, NoneIsTheFactorOnly) {
  Series series = noisy_values(5, 2, 1);
  const float before = series.at(3, 1, 0);
  OneRankReducer reducer;
  const Scaler scaler = Scaler::fit(series, make_split(5, {.train = "3"}), {.factor = 0.6}, reducer);
  scaler.apply(series);
  EXPECT_FLOAT_EQ(series.at(3, 1, 0), 0.6f * before);
  EXPECT_EQ(scaler.center()[0], 0);
  EXPECT_THROW((void)scale_by("data.center", "nodes"), UserError);
}

}  // namespace
}  // namespace rossby
