#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rossby/base/error.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/train/evaluation.hpp"
#include "rossby/train/metrics.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::nan;

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
  EXPECT_DOUBLE_EQ(scores.mape_percent[0], 100 * (1 / 2.0 + 4 / 3.0 + 2 / 20.0) / 3);
  EXPECT_DOUBLE_EQ(scores.rmse[2], 0);
  EXPECT_TRUE(std::isnan(scores.rmse[1]));  // nothing was scored at horizon 2
  // With another rank: pooled over all values, not the mean of the ranks' RMSE.
  std::vector<double> there(20);
  there[0] = 4, there[1] = 2, there[2] = 1, there[3] = 0.25, there[4] = 1;
  OtherRank two(there);
  const HorizonScores both = errors.reduce(two);
  EXPECT_EQ(two.calls, 1);
  EXPECT_DOUBLE_EQ(both.rmse[0], std::sqrt(25 / 4.0));
  EXPECT_DOUBLE_EQ(both.mae[0], 9 / 4.0);
  EXPECT_DOUBLE_EQ(both.mape_percent[0], 100 * (1 / 2.0 + 4 / 3.0 + 2 / 20.0 + 0.25) / 4);
}

TEST(HorizonErrors, OriginsAreKeptApart) {
  const Series series = truth();
  const std::vector<Index> origins = {1, 2};
  HorizonErrors errors({"model", "persistence"}, 2);
  errors.keep_origins(origins);
  const std::vector<float> forecast = {3, 7, 18, 1000};  // errors 1, 4, −2, masked
  errors.add<float>(1, 1, {forecast.data(), 2, 2, 1}, series, origins);
  const std::vector<float> later = {5, 41};  // second origin only, at step 4: errors 1, 1
  errors.add<float>(1, 2, {later.data(), 2, 1, 1}, series, std::span<const Index>(origins).subspan(1));
  OneRankReducer one;
  const OriginErrors kept = errors.reduce_origins(1, one);
  EXPECT_EQ(kept.squares, (std::vector<double>{1 + 4, 16, 0, 2}));
  EXPECT_EQ(kept.count, (std::vector<double>{2, 1, 0, 2}));
  EXPECT_EQ(errors.reduce_origins(0, one).squares, std::vector<double>(4));
}

TEST(HorizonErrors, MapeLeavesOutMissingAndZeroTargets) {
  Series series(2, 4, 1);
  series.at(1, 0, 0) = -4;
  series.at(1, 2, 0) = nan;
  series.at(1, 3, 0) = 1e-3f;
  const std::vector<float> forecast = {-5, 3, 7, 2e-3f};
  const std::vector<Index> origins = {0};
  HorizonErrors errors({"model"}, 1);
  errors.add<float>(0, 1, {forecast.data(), 4, 1, 1}, series, origins);
  OneRankReducer one;
  const HorizonScores scores = errors.reduce(one);
  EXPECT_DOUBLE_EQ(scores.count[0], 3) << "a zero counts for RMSE and MAE";
  EXPECT_NEAR(scores.mape_percent[0], 100 * (1 / 4.0 + 1) / 2, 1e-5);

  Series zero(2, 1, 1);
  HorizonErrors none({"model"}, 1);
  none.add<float>(0, 1, {forecast.data(), 1, 1, 1}, zero, origins);
  EXPECT_TRUE(std::isnan(none.reduce(one).mape_percent[0]));
  EXPECT_DOUBLE_EQ(none.reduce(one).mae[0], 5);
}

TEST(HorizonErrors, ZeroIsZeroInAScaledSeriesToo) {
  const std::vector<Index> origins = {0};
  for (const double center : {0.0, 0.1, 58.9, -1e6})
    for (const double spread : {1.0, 0.3, 19.7}) {
      Series series(2, 2, 1);
      series.at(1, 1, 0) = 50;
      const Scaler scaler(2, 1, {center, center}, {spread, spread}, 0.7);
      scaler.apply(series);
      const std::vector<double> forecast = {scaler.to_scaled(20, 0, 0), scaler.to_scaled(60, 1, 0)};
      HorizonErrors errors({"model"}, 1);
      errors.add<double>(0, 1, {forecast.data(), 2, 1, 1}, series, origins, {.scaler = &scaler});
      OneRankReducer one;
      EXPECT_NEAR(errors.reduce(one).mape_percent[0], 20, 1e-6 * std::abs(center) + 1e-4) << center;
    }
}

TEST(HorizonErrors, ScaledErrorsComeBackInOriginalUnits) {
  Series series = truth();
  const Scaler scaler(2, 1, {5, 7}, {2, 4}, 0.5);
  scaler.apply(series);
  const std::vector<Index> origins = {1};
  const std::vector<float> forecast = {static_cast<float>(scaler.to_scaled(5, 0, 0)),
                                       static_cast<float>(scaler.to_scaled(20, 1, 0))};
  HorizonErrors errors({"model"}, 1);
  errors.add<float>(0, 1, {forecast.data(), 2, 1, 1}, series, origins, {.scaler = &scaler});
  OneRankReducer one;
  EXPECT_NEAR(errors.reduce(one).mae[0], 1.5, 1e-6);  // 5 for 2 and 20 for 20
}

TEST(HorizonErrors, PartsAreScoredOnTheirOwnAndTogether) {
  // Two nodes, three features: a variable of two features, and one of one feature in other units.
  Series series(3, 2, 3);
  for (Index i = 0; i < 2; ++i)
    for (Index f = 0; f < 3; ++f) series.at(2, i, f) = f < 2 ? 1 : 1000;
  series.at(2, 1, 1) = nan;
  const std::vector<Index> origins = {1};
  const std::vector<float> forecast = {2, 3, 1100, 2, 9, 1100};
  HorizonErrors errors({"model"}, 1, {2, 1});
  errors.add<float>(0, 1, {forecast.data(), 2, 1, 3}, series, origins);
  HorizonErrors whole({"model"}, 1);
  whole.add<float>(0, 1, {forecast.data(), 2, 1, 3}, series, origins);
  OneRankReducer one;
  const std::vector<HorizonScores> parts = errors.reduce_parts(one);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].rmse[0], std::sqrt(2.0));  // 1, 2 and 1
  EXPECT_EQ(parts[0].count[0], 3);
  EXPECT_EQ(parts[1].rmse[0], 100);
  EXPECT_EQ(parts[1].mape_percent[0], 10);
  EXPECT_EQ(errors.reduce(one).rmse, whole.reduce(one).rmse);
  EXPECT_EQ(errors.reduce(one).mae[0], 204.0 / 5);
  HorizonErrors wrong({"model"}, 1, {2, 2});
  EXPECT_THROW(wrong.add<float>(0, 1, {forecast.data(), 2, 1, 3}, series, origins), BugError);
}

TEST(HorizonErrors, ThreadsMakeTheSameBits) {
  constexpr Index nodes = 50'001;  // the last piece of them is smaller
  Series series(4, nodes, 1);
  std::vector<double> forecast(static_cast<std::size_t>(2 * nodes));
  double squares = 0;
  for (Index i = 0; i < nodes; ++i)
    for (Index b = 0; b < 2; ++b) {
      const double error = std::sin(static_cast<double>(3 * i + b));
      series.at(2 + b, i, 0) = static_cast<float>(i % 11);
      forecast[static_cast<std::size_t>(2 * i + b)] = static_cast<double>(i % 11) + error;
      squares += error * error;
    }
  const std::vector<Index> origins = {1, 2};
  std::vector<HorizonScores> scores;
  for (const int threads : {1, 3}) {
    HorizonErrors errors({"model"}, 1, {}, threads);
    errors.add<double>(0, 1, {forecast.data(), nodes, 2, 1}, series, origins);
    OneRankReducer one;
    scores.push_back(errors.reduce(one));
  }
  EXPECT_NEAR(scores[0].rmse[0], std::sqrt(squares / (2 * nodes)), 1e-12);
  EXPECT_EQ(scores[0].count[0], 2 * nodes);
  EXPECT_EQ(scores[0].rmse, scores[1].rmse);
  EXPECT_EQ(scores[0].mae, scores[1].mae);
  EXPECT_EQ(scores[0].mape_percent, scores[1].mape_percent);
}

TEST(HorizonErrors, RowsHaveWeights) {
  const Series series = truth();
  const std::vector<Index> origins{0};
  const std::vector<float> forecast{3, 14};  // errors 2 and 4
  HorizonErrors errors({"model"}, 1);
  errors.keep_origins(origins);
  errors.weigh(std::vector<double>{3, 1});
  errors.add<float>(0, 1, {forecast.data(), 2, 1, 1}, series, origins);
  OneRankReducer reducer;
  const HorizonScores scores = errors.reduce(reducer);
  EXPECT_NEAR(scores.rmse[0], std::sqrt((3 * 4 + 16) / 4.0), 1e-12);
  EXPECT_NEAR(scores.mae[0], (3 * 2 + 4) / 4.0, 1e-12);
  EXPECT_EQ(errors.reduce_origins(0, reducer).squares[0], 3 * 4 + 16);
}

TEST(HorizonErrors, ShowsValuesInOriginalUnits) {
  Series series(30, 2, 1);
  for (Index t = 0; t < 30; ++t) series.at(t, 0, 0) = static_cast<float>(t), series.at(t, 1, 0) = nan;
  std::vector<Index> origins(20);
  for (std::size_t k = 0; k < origins.size(); ++k) origins[k] = static_cast<Index>(k);
  std::vector<float> forecast(40, 1);
  HorizonErrors errors({"model"}, 1);
  std::vector<double> shown, observed;
  std::vector<Index> steps;
  errors.watch([&](const ScoredValues& values) {
    EXPECT_LE(std::ssize(values.steps), 16) << "sinks hold some columns at once";
    steps.insert(steps.end(), values.steps.begin(), values.steps.end());
    const Index size = values.rows * std::ssize(values.steps);
    shown.insert(shown.end(), values.forecast, values.forecast + size);
    observed.insert(observed.end(), values.observed, values.observed + size);
  });
  errors.add<float>(0, 1, {forecast.data(), 2, 20, 1}, series, origins);
  ASSERT_EQ(steps.size(), 20U);
  EXPECT_EQ(steps.back(), 20);
  EXPECT_EQ(shown.size(), 40U);
  EXPECT_EQ(observed[3], 4);
  EXPECT_TRUE(std::isnan(observed[16])) << "row 1";
  int calls = 0;
  errors.watch([&](const ScoredValues& values) {
    ++calls;
    EXPECT_EQ(values.rows, 0);
  });
  const Series empty(30, 0, 1);
  errors.add<float>(0, 1, {forecast.data(), 0, 1, 1}, empty, std::span(origins).first(1));
  EXPECT_EQ(calls, 1) << "a rank without rows takes part in what sinks communicate";
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
  EXPECT_TRUE(std::isnan(scores.mape_percent[0]));
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
  scores.mape_percent = {2, 4, 10, 30, 3, std::numeric_limits<double>::quiet_NaN()};
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
  EXPECT_DOUBLE_EQ(json["horizons"][1]["mape_percent"]["persistence"], 30);
  EXPECT_DOUBLE_EQ(json["mean"]["mape_percent"]["model"], 3);
  EXPECT_TRUE(json["mean"]["mape_percent"]["ridge_var"].is_null());
  EXPECT_FALSE(json["horizons"][0].contains("lead"));
  EXPECT_EQ(json["units"], "degree_Celsius");
  EXPECT_EQ(json["skill"]["baseline"], "ridge_var");  // by RMSE, though persistence has the smaller MAE
  EXPECT_DOUBLE_EQ(json["skill"]["rmse"], 1 - 0.4 / 0.5);
}

TEST(Evaluation, TableNamesMeasuresAndUnits) {
  const std::string table = evaluation_table(example(), "degree_Celsius");
  EXPECT_NE(table.find("RMSE (degree_Celsius)"), std::string::npos);
  EXPECT_NE(table.find("MAE (degree_Celsius)"), std::string::npos);
  EXPECT_NE(table.find("    mean    0.4000       0.7000     0.5000   +20.0 %"), std::string::npos) << table;
  EXPECT_EQ(table.find("nan"), std::string::npos) << "what is not known is \"-\"";
  EXPECT_NE(table.find("         -\n"), std::string::npos) << table;
  HorizonScores alone = example();
  alone.names = {"model"};
  EXPECT_EQ(evaluation_table(alone, "").find("skill"), std::string::npos);
  EXPECT_FALSE(evaluation_json(alone, "").contains("skill"));
}

TEST(Evaluation, SmallErrorsKeepTheirDigits) {
  HorizonScores scores = example();
  EXPECT_DOUBLE_EQ(largest_error(scores), *std::max_element(scores.rmse.begin(), scores.rmse.end()));
  for (auto* list : {&scores.rmse, &scores.mae, &scores.bias})
    for (double& error : *list) error *= 1e-6;
  const std::string table = evaluation_table(scores, "kg m-2 s-1");
  EXPECT_EQ(table.substr(0, table.find("MAPE")).find("0.0000"), std::string::npos) << table;
  EXPECT_EQ(error_text(1.23456e-6, 2e-6), "1.235e-06");
  EXPECT_EQ(error_text(0.0123456, 0.3), "0.0123");
  EXPECT_EQ(error_text(std::numeric_limits<double>::quiet_NaN(), 1e-6), "-");
}

TEST(Evaluation, LeadsAreTimes) {
  const TimeAxis five = TimeAxis::regular(30, "minutes since 2012-03-01", 0, 5);
  const std::vector<Index> origins = {3, 4, 20};
  const auto leads = horizon_leads(five, origins, 2);
  const auto json = evaluation_json(example(), "mile/hour", leads);
  EXPECT_EQ(json["horizons"][1]["lead"], "10 min");
  EXPECT_DOUBLE_EQ(json["horizons"][1]["lead_seconds"], 600);
  const std::string table = evaluation_table(example(), "mile/hour", leads);
  EXPECT_NE(table.find("\n  10 min    0.5000       0.8000     0.6000   +16.7 %"), std::string::npos) << table;
  EXPECT_NE(table.find("MAPE (%)"), std::string::npos);

  const auto months = horizon_leads(TimeAxis::monthly(30, "1999-01"), origins, 2);
  EXPECT_EQ(months[1].text, "2 months");
  EXPECT_FALSE(evaluation_json(example(), "K", months)["horizons"][0].contains("lead_seconds"));

  const TimeAxis night =
      TimeAxis::parse({0, 10, 20, 30, 70, 80, 90}, "minutes since 2019-01-01", "standard", "f.nc");
  const auto across = horizon_leads(night, std::vector<Index>{0, 2, 4}, 2);
  EXPECT_EQ(across[0].text, "10 min");
  EXPECT_EQ(across[1].text, "") << "20 minutes from one origin, 50 from another";
  EXPECT_EQ(horizon_leads(TimeAxis::counter(9), origins, 1)[0].text, "");
}

TEST(HorizonErrors, MeansAreOfHorizonsWithTargets) {
  Series series(3, 1, 1);
  series.at(1, 0, 0) = 1;
  series.at(2, 0, 0) = nan;  // nothing at horizon 2
  const std::vector<Index> origins = {0};
  const auto scores_of = [&](float forecast) {
    HorizonErrors errors({"model"}, 2);
    const float none = 7;
    errors.add<float>(0, 1, {&forecast, 1, 1, 1}, series, origins);
    errors.add<float>(0, 2, {&none, 1, 1, 1}, series, origins);
    OneRankReducer one;
    return errors.reduce(one);
  };
  const HorizonScores scores = scores_of(4);
  EXPECT_TRUE(std::isnan(scores.rmse[1]));
  EXPECT_DOUBLE_EQ(scores.mean_rmse(0), 3);
  EXPECT_DOUBLE_EQ(scores.mean_mae(0), 3);
  EXPECT_DOUBLE_EQ(scores.mean_mape_percent(0), 300);
  EXPECT_TRUE(std::isnan(scores_of(nan).mean_rmse(0))) << "a diverged model does not hide";
}

TEST(HorizonErrors, MeanMapeIsOfHorizonsWithTargetsOtherThanZero) {
  Series series(3, 1, 1);
  series.at(1, 0, 0) = 0;  // all zero at horizon 1
  series.at(2, 0, 0) = 2;
  const std::vector<Index> origins = {0};
  const auto scores_of = [&](float forecast) {
    HorizonErrors errors({"model"}, 2);
    errors.add<float>(0, 1, {&forecast, 1, 1, 1}, series, origins);
    errors.add<float>(0, 2, {&forecast, 1, 1, 1}, series, origins);
    OneRankReducer one;
    return errors.reduce(one);
  };
  EXPECT_DOUBLE_EQ(scores_of(3).mean_mape_percent(0), 50);
  EXPECT_DOUBLE_EQ(scores_of(3).mean_mae(0), 2) << "zero is a target like any other";
  EXPECT_TRUE(std::isnan(scores_of(nan).mean_mape_percent(0))) << "a diverged model does not hide";
}

TEST(Evaluation, TableSaysOfWhichHorizonsMeansAre) {
  HorizonScores scores = example();
  EXPECT_EQ(evaluation_table(scores, "K").find("mean: of"), std::string::npos);
  scores.count = {0, 4, 0, 4, 0, 4};
  EXPECT_TRUE(
      evaluation_table(scores, "K").ends_with("\nmean: of the 1 of 2 horizons that have observed targets\n"));
  EXPECT_TRUE(
      evaluation_table(scores, "K", {}, std::vector<Index>{2})
          .ends_with("\n1 of 2 horizons are shown (evaluate.report); mean: of the 1 of 2 horizons that have "
                     "observed targets\n"));
  scores.count = {4, 4, 4, 4, 4, 4};
  scores.ratio_count = {4, 0, 4, 0, 4, 0};
  EXPECT_TRUE(evaluation_table(scores, "K", {}, std::vector<Index>{2})
                  .ends_with("\n1 of 2 horizons are shown (evaluate.report); mean: of all horizons\nmean "
                             "MAPE: of the 1 of 2 "
                             "horizons that have targets other than 0\n"));
}

TEST(Evaluation, ReportedHorizons) {
  const TimeAxis five = TimeAxis::regular(30, "minutes since 2012-03-01", 0, 5);
  const auto report = [&](std::vector<std::string> wanted, Index horizons) {
    return reported_horizons(wanted, five, horizons);
  };
  EXPECT_EQ(report({}, 1), (std::vector<Index>{1}));
  EXPECT_EQ(report({}, 6), (std::vector<Index>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(report({}, 7), (std::vector<Index>{1, 3, 5, 7}));
  EXPECT_EQ(report({}, 12), (std::vector<Index>{1, 3, 6, 9, 12}));
  EXPECT_EQ(report({"1 h", "15 min", "6", "3"}, 12), (std::vector<Index>{3, 6, 12}));
  for (const char* wrong : {"0", "13", "65 min", "-1", "3x", "", "7 min", "1 month"}) try {
      report({wrong}, 12);
      ADD_FAILURE() << wrong;
    } catch (const UserError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("evaluate.report: \"" + std::string(wrong) + "\""))
          << wrong;
    }
  const std::string table = evaluation_table(example(), "K", {}, std::vector<Index>{2});
  EXPECT_EQ(table.find("\n       1  "), std::string::npos);
  EXPECT_NE(table.find("\n       2  "), std::string::npos);
  EXPECT_NE(table.find("mean    0.4000"), std::string::npos) << "of all horizons, reported or not";
  EXPECT_NE(table.find("1 of 2 horizons are shown (evaluate.report); mean: of all horizons\n"),
            std::string::npos);
}

}  // namespace
}  // namespace rossby
