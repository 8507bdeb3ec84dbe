#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rossby/base/error.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Adds the sums of another rank once.
class OtherRank final : public Reducer {
 public:
  explicit OtherRank(std::vector<double> other) : other_(std::move(other)) {}
  void sum(std::span<double> values) override {
    ASSERT_EQ(values.size(), other_.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other_[i];
    ++calls;
  }
  void sum(std::span<float>) override {}
  void max(std::span<double>) override {}
  void ordered_sum(std::span<double>) override {}
  [[nodiscard]] Traffic sent() const override { return {}; }
  int calls = 0;

 private:
  std::vector<double> other_;
};

/// Two nodes, steps 0…4, node 1 missing at step 3.
Series truth() {
  Series series(5, 2, 1);
  for (Index t = 0; t < 5; ++t) {
    series.at(t, 0, 0) = static_cast<float>(t);
    series.at(t, 1, 0) = static_cast<float>(10 * t);
  }
  series.at(3, 1, 0) = nan;
  return series;
}

TEST(HorizonErrors, PooledMaskedAndReduced) {
  const Series series = truth();
  const std::vector<Index> origins = {1, 2};
  HorizonErrors errors({"model", "persistence"}, 2);
  // Targets at horizon 1: steps 2 and 3. Forecast (rows, origins).
  const std::vector<float> forecast = {3, 7, 18, 1000};  // errors 1, 4, −2, masked
  errors.add<float>(0, 1, {forecast.data(), 2, 2, 1}, series, origins);
  const std::vector<double> in_double = {2, 3, 20, 0};
  errors.add<double>(1, 1, {in_double.data(), 2, 2, 1}, series, origins);
  OneRankReducer one;
  const HorizonScores scores = errors.reduce(one);
  EXPECT_DOUBLE_EQ(scores.rmse[0], std::sqrt((1 + 16 + 4) / 3.0));
  EXPECT_DOUBLE_EQ(scores.mae[0], 7 / 3.0);
  EXPECT_DOUBLE_EQ(scores.count[0], 3);
  EXPECT_DOUBLE_EQ(scores.rmse[2], 0);
  EXPECT_TRUE(std::isnan(scores.rmse[1]));  // nothing was scored at horizon 2
  // With another rank: pooled over all, not the mean of the ranks' RMSE.
  OtherRank two({4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const HorizonScores both = errors.reduce(two);
  EXPECT_EQ(two.calls, 1);
  EXPECT_DOUBLE_EQ(both.rmse[0], std::sqrt(25 / 4.0));
  EXPECT_DOUBLE_EQ(both.mae[0], 9 / 4.0);
}

TEST(HorizonErrors, ScaledErrorsComeBackInOriginalUnits) {
  Series series = truth();
  const Scaler scaler(2, 1, {5, 7}, {2, 4}, 0.5);
  scaler.apply(series);
  const std::vector<Index> origins = {1};
  const std::vector<float> forecast = {static_cast<float>(scaler.to_scaled(5, 0, 0)),
                                       static_cast<float>(scaler.to_scaled(20, 1, 0))};
  HorizonErrors errors({"model"}, 1);
  errors.add<float>(0, 1, {forecast.data(), 2, 1, 1}, series, origins, &scaler);
  OneRankReducer one;
  EXPECT_NEAR(errors.reduce(one).mae[0], 1.5, 1e-6);  // 5 for 2 and 20 for 20
}

TEST(HorizonErrors, DivergedForecastIsNotMasked) {
  const Series series = truth();
  const std::vector<Index> origins = {1};
  const std::vector<float> forecast = {nan, 20};
  HorizonErrors errors({"model", "ar1"}, 1);
  errors.add<float>(0, 1, {forecast.data(), 2, 1, 1}, series, origins);
  OneRankReducer one;
  const HorizonScores scores = errors.reduce(one);
  EXPECT_TRUE(std::isnan(scores.rmse[0]));
  EXPECT_TRUE(evaluation_json(scores, "K")["mean"]["rmse"]["model"].is_null());
}

TEST(HorizonErrors, TargetsOutsideTheSeriesAreABug) {
  const Series series = truth();
  const std::vector<Index> origins = {4};
  const std::vector<float> forecast(2);
  HorizonErrors errors({"model"}, 1);
  EXPECT_THROW(errors.add<float>(0, 1, {forecast.data(), 2, 1, 1}, series, origins), BugError);
}

HorizonScores example() {
  HorizonScores scores;
  scores.names = {"model", "persistence", "ridge_var"};
  scores.horizons = 2;
  scores.rmse = {0.3, 0.5, 0.6, 0.8, 0.4, 0.6};
  scores.mae = {0.2, 0.4, 0.1, 0.3, 0.3, 0.5};
  scores.count = {1, 1, 1, 1, 1, 1};
  return scores;
}

TEST(Evaluation, JsonHasTheAgreedKeys) {
  const auto json = evaluation_json(example(), "degree_Celsius");
  EXPECT_EQ(json["horizons"].size(), 2u);
  EXPECT_EQ(json["horizons"][1]["step"], 2);
  EXPECT_DOUBLE_EQ(json["horizons"][1]["rmse"]["persistence"], 0.8);
  EXPECT_DOUBLE_EQ(json["horizons"][0]["mae"]["ridge_var"], 0.3);
  EXPECT_DOUBLE_EQ(json["mean"]["rmse"]["model"], 0.4);
  EXPECT_DOUBLE_EQ(json["mean"]["mae"]["persistence"], 0.2);
  EXPECT_EQ(json["units"], "degree_Celsius");
  EXPECT_EQ(json["skill"]["baseline"], "ridge_var");  // by RMSE, though persistence has the smaller MAE
  EXPECT_DOUBLE_EQ(json["skill"]["rmse"], 1 - 0.4 / 0.5);
}

TEST(Evaluation, TableNamesMeasuresAndUnits) {
  const std::string table = evaluation_table(example(), "degree_Celsius");
  EXPECT_NE(table.find("RMSE (degree_Celsius)"), std::string::npos);
  EXPECT_NE(table.find("MAE (degree_Celsius)"), std::string::npos);
  EXPECT_NE(table.find("    mean    0.4000       0.7000     0.5000   +20.0 %"), std::string::npos) << table;
  HorizonScores alone = example();
  alone.names = {"model"};
  EXPECT_EQ(evaluation_table(alone, "").find("skill"), std::string::npos);
  EXPECT_FALSE(evaluation_json(alone, "").contains("skill"));
}

}  // namespace
}  // namespace rossby
