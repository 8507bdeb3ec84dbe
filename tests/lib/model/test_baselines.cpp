#include <cmath>
#include <cstring>
#include <numbers>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "tests/lib/model/series_rows.hpp"
#include "tests/lib/model/thread_ranks.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::nan;
using test::rows_of;

/// (horizons, origins, rows, features), packed.
using Forecasts = std::vector<float>;

Forecasts run(Baseline& baseline, const Series& series, const Split& split, std::span<const Index> origins,
              Index horizons, Reducer& reducer) {
  baseline.fit(series, split, reducer);
  Forecasts result;
  Index expected = 1;
  baseline.forecast(series, origins, horizons, reducer, [&](Index h, NodeView<const float> x) {
    EXPECT_EQ(h, expected++);
    for (Index o = 0; o < x.cols; ++o)
      for (Index i = 0; i < x.rows; ++i) result.insert(result.end(), x.at(i, o), x.at(i, o) + x.channels);
  });
  return result;
}

/// Correlated, autocorrelated noise about means that differ by node and feature; some values are missing,
/// node 3 is never observed.
Series noisy(Index steps, Index rows, Index features, double missing) {
  Series series(steps, rows, features);
  const Random random(5, "test");
  std::vector<double> state(static_cast<std::size_t>(rows * features));
  for (Index t = 0; t < steps; ++t) {
    const Random now = random.at(static_cast<std::uint64_t>(t));
    for (Index i = 0; i < rows; ++i)
      for (Index f = 0; f < features; ++f) {
        const auto c = static_cast<std::size_t>(i * features + f);
        state[c] = 0.8 * state[c] + 0.5 * now.normal(c) + now.normal(1000 + static_cast<std::uint64_t>(f));
        const bool seen = now.uniform(2000 + c) >= missing && i != 3;
        series.at(t, i, f) =
            seen ? static_cast<float>(10 * static_cast<double>(f) + static_cast<double>(i) + state[c]) : nan;
      }
  }
  return series;
}

Series copy(const Series& series) {
  return rows_of(series, 0, series.rows);
}

/// Travelling waves of period 12: two EOFs, a rotation between them.
Series waves(Index steps, Index rows) {
  Series series(steps, rows, 1);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < rows; ++i)
      series.at(t, i, 0) = static_cast<float>(
          20 + std::cos(2 * std::numbers::pi * (static_cast<double>(t) / 12 - static_cast<double>(i) / 7)));
  return series;
}

double largest_error(const Forecasts& forecasts, const Series& series, std::span<const Index> origins,
                     Index horizons) {
  double worst = 0;
  std::size_t place = 0;
  for (Index h = 1; h <= horizons; ++h)
    for (const Index o : origins)
      for (Index c = 0; c < series.rows * series.features; ++c)
        worst = std::max<double>(
            worst, std::abs(forecasts[place++] - series.values[(o + h) * series.rows * series.features + c]));
  return worst;
}

TEST(Baselines, LinearModelsForecastARotationExactly) {
  const Series series = waves(180, 23);
  const Split split = make_split(180, {.train = "120"});
  const auto origins = split.test_origins(8);
  OneRankReducer reducer;
  const auto lim = make_linear_inverse_model({.lim_modes = 2});
  EXPECT_LT(largest_error(run(*lim, series, split, origins, 8, reducer), series, origins, 8), 1e-4);
  const auto many = make_linear_inverse_model({.lim_modes = 20});  // the data has only two patterns
  EXPECT_LT(largest_error(run(*many, series, split, origins, 8, reducer), series, origins, 8), 1e-3);
  const auto var = make_ridge_var({.ridge = 1e-7});
  EXPECT_LT(largest_error(run(*var, series, split, origins, 8, reducer), series, origins, 8), 1e-3);
  const auto persistence = make_persistence();
  EXPECT_GT(largest_error(run(*persistence, series, split, origins, 8, reducer), series, origins, 8), 0.5);
}

/// With as many modes as training steps, residuals are pure rounding, which has no persistence.
TEST(Baselines, RoundingHasNoPart) {
  constexpr Index rows = 41, horizons = 3;
  const Series series = noisy(40, rows, 1, 0);
  Series turned(40, rows, 1);  // rounds sums over nodes differently
  for (Index t = 0; t < 40; ++t)
    for (Index i = 0; i < rows; ++i) turned.at(t, i, 0) = series.at(t, rows - 1 - i, 0);
  OneRankReducer reducer;
  for (const char* train : {"15", "20", "21", "30"}) {
    const Split split = make_split(40, {.train = train});
    const auto origins = split.test_origins(horizons);
    const auto lim = make_linear_inverse_model({.lim_modes = 20});
    const Forecasts one = run(*lim, series, split, origins, horizons, reducer);
    const Forecasts other = run(*lim, turned, split, origins, horizons, reducer);
    for (std::size_t k = 0; k < one.size(); ++k) {
      const auto row = static_cast<Index>(k) % rows;
      const float turned_one =
          other[k - static_cast<std::size_t>(row) + static_cast<std::size_t>(rows - 1 - row)];
      if (std::isnan(one[k])) continue;
      EXPECT_NEAR(turned_one, one[k], 1e-4) << train << " steps, node " << row;
    }
  }
}

TEST(Baselines, PairsAcrossAGapAreNotFitted) {
  // The wave jumps by five steps in the held-out fold: a pair across it would spoil the fit.
  Series series = waves(150, 11);
  const Series later = waves(160, 11);
  const Split split = make_split(150, {.train = "96", .folds = 4, .fold = 1});
  for (Index t = split.validation.last; t < 150; ++t)
    for (Index i = 0; i < 11; ++i) series.at(t, i, 0) = later.at(t + 5, i, 0);
  const auto origins = split.test_origins(4);
  OneRankReducer reducer;
  const auto lim = make_linear_inverse_model({.lim_modes = 2});
  EXPECT_LT(largest_error(run(*lim, series, split, origins, 4, reducer), series, origins, 4), 1e-4);
  const auto var = make_ridge_var({.ridge = 1e-7});
  EXPECT_LT(largest_error(run(*var, series, split, origins, 4, reducer), series, origins, 4), 1e-3);
}

TEST(Baselines, PairsAcrossABreakOfTheTimeAxisAreNotFitted) {
  Series series = waves(150, 11);
  const Series later = waves(160, 11);
  for (Index t = 60; t < 150; ++t)
    for (Index i = 0; i < 11; ++i) series.at(t, i, 0) = later.at(t + 5, i, 0);
  Split split = make_split(150, {.train = "96"}), counted = split;
  split.breaks = {59};
  const auto origins = split.test_origins(4);
  OneRankReducer reducer;
  const auto error = [&](const auto& made, const Split& of) {
    return largest_error(run(*made, series, of, origins, 4, reducer), series, origins, 4);
  };
  EXPECT_LT(error(make_linear_inverse_model({.lim_modes = 2}), split), 1e-4);
  EXPECT_LT(error(make_ridge_var({.ridge = 1e-7}), split), 1e-3);
  EXPECT_GT(error(make_linear_inverse_model({.lim_modes = 2}), counted), 1e-2) << "steps alone tell no gap";
  // A node that repeats its last value, except across the gap.
  Series still(40, 1, 1);
  for (Index t = 0; t < 40; ++t) still.at(t, 0, 0) = t < 15 ? 1 : -1;
  Split two = make_split(40, {.train = "30"});
  const auto persistent = [&] {
    return lag_one_coefficients(still, std::vector<double>{0}, two.training_pairs()).front();
  };
  EXPECT_NEAR(persistent(), 27.0 / 29, 1e-12);
  two.breaks = {14};
  EXPECT_EQ(persistent(), 1);
}

TEST(Baselines, EofsAreOrthonormalAndRebuildTheData) {
  const Series series = noisy(40, 600, 2, 0.1);  // two blocks of rows
  std::vector<Index> steps;
  for (Index t = 0; t < 30; ++t) steps.push_back(t);
  OneRankReducer reducer;
  const auto mean = training_means(series, steps, reducer);
  const Eofs eofs = leading_eofs(series, mean, steps, 1, 100, reducer);
  ASSERT_LE(eofs.modes, 30);
  ASSERT_GE(eofs.modes, 28);
  const auto k = static_cast<std::size_t>(eofs.modes);
  for (std::size_t a = 0; a < k; ++a)
    for (std::size_t b = 0; b < k; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < 600; ++i) product += eofs.pattern[i * k + a] * eofs.pattern[i * k + b];
      EXPECT_NEAR(product, a == b ? 1 : 0, 1e-8);
    }
  std::vector<double> anomalies(30 * 600);
  pack_anomalies(series, mean, steps, 1, 0, 600, anomalies);
  for (std::size_t t = 0; t < 30; t += 7)
    for (std::size_t i = 0; i < 600; i += 31) {
      double sum = 0;
      for (std::size_t a = 0; a < k; ++a) sum += eofs.amplitude[t * k + a] * eofs.pattern[i * k + a];
      EXPECT_NEAR(sum, anomalies[t * 600 + i], 1e-8);
    }
}

TEST(Baselines, SameForecastsAtAnyNumberOfRanks) {
  const Series series = noisy(90, 13, 2, 0.1);
  const Split split = make_split(90, {.train = "70", .folds = 4, .fold = 1});
  const auto origins = split.test_origins(3);
  const std::vector<Index> begin = {0, 6, 6, 13};  // rank 1 owns nothing
  for (std::size_t b = 0; b < 5; ++b) {
    OneRankReducer one;
    const Forecasts whole = run(*classical_baselines({.lim_modes = 4})[b], series, split, origins, 3, one);
    std::vector<Forecasts> parts(3);
    ThreadRanks ranks(3);
    ranks.run([&](int rank, Reducer& reducer) {
      const auto r = static_cast<std::size_t>(rank);
      parts[r] = run(*classical_baselines({.lim_modes = 4})[b], rows_of(series, begin[r], begin[r + 1]),
                     split, origins, 3, reducer);
    });
    EXPECT_TRUE(parts[1].empty());
    const std::size_t images = 3 * origins.size();
    ASSERT_EQ(whole.size(), images * 26);
    for (std::size_t k = 0; k < images; ++k)
      for (std::size_t c = 0; c < 26; ++c) {
        const float part = c < 12 ? parts[0][k * 12 + c] : parts[2][k * 14 + c - 12];
        ASSERT_NEAR(whole[k * 26 + c], part, 1e-4) << "baseline " << b;
        ASSERT_TRUE(std::isfinite(part)) << "baseline " << b;
      }
  }
}

TEST(Baselines, OnlyTrainingStepsAreFittedAndNoLaterValueIsUsed) {
  const Series series = noisy(90, 7, 1, 0.05);
  const Split split = make_split(90, {.train = "70", .folds = 4, .fold = 1});
  Series spoilt = copy(series);
  for (Index t = 0; t < 90; ++t)
    for (Index i = 0; i < 7; ++i)
      if (!split.is_training(t)) spoilt.at(t, i, 0) = 1e4f;
  OneRankReducer reducer;
  const std::vector<Index> early = {0, 5, split.validation.first - 1};
  const std::vector<Index> test = {75, 80};
  Series cut = copy(series);
  for (Index t = 81; t < 90; ++t)
    for (Index i = 0; i < 7; ++i) cut.at(t, i, 0) = -1e4f;
  for (std::size_t b = 0; b < 5; ++b) {
    const auto baseline = [&] { return std::move(classical_baselines({.lim_modes = 3})[b]); };
    const Forecasts clean = run(*baseline(), series, split, early, 3, reducer);
    EXPECT_EQ(run(*baseline(), spoilt, split, early, 3, reducer), clean) << "baseline " << b;
    EXPECT_EQ(run(*baseline(), cut, split, test, 3, reducer),
              run(*baseline(), series, split, test, 3, reducer))
        << "baseline " << b;
  }
}

TEST(Baselines, MissingValuesAtTheOrigin) {
  Series series(12, 2, 1);
  for (Index t = 0; t < 12; ++t) {
    series.at(t, 0, 0) = t % 4 < 2 ? 3.0f : 1.0f;  // mean 2, a = 1/7 over its 7 pairs
    series.at(t, 1, 0) = nan;                      // never observed
  }
  series.at(9, 0, 0) = series.at(10, 0, 0) = nan;
  const Split split = make_split(12, {.train = "8"});
  const std::vector<Index> origins = {10};
  OneRankReducer reducer;
  EXPECT_EQ(run(*make_persistence(), series, split, origins, 1, reducer), (Forecasts{3, 2}));
  EXPECT_EQ(run(*make_climatology(), series, split, origins, 1, reducer), (Forecasts{2, 2}));
  const Forecasts ar1 = run(*make_ar1(), series, split, origins, 1, reducer);
  EXPECT_NEAR(ar1[0], 2 + std::pow(1.0 / 7, 3), 1e-6);  // last seen two steps before the origin
  EXPECT_EQ(ar1[1], 2);
}

TEST(Baselines, DegenerateSeries) {
  OneRankReducer reducer;
  for (const auto& [steps, rows] : {std::pair<Index, Index>{3, 1}, {4, 5}, {6, 0}, {8, 3}}) {
    Series constant(steps, rows, 1);
    for (auto& x : constant.values) x = 4;
    Series unseen(steps, rows, 1);
    for (auto& x : unseen.values) x = nan;
    const Split split = make_split(steps, {.train = std::to_string(steps - 1)});
    const auto origins = split.test_origins(1);
    for (auto& baseline : classical_baselines({.gram_steps = 4})) {
      for (const float x : run(*baseline, constant, split, origins, 1, reducer))
        EXPECT_EQ(x, 4) << baseline->name();
      for (const float x : run(*baseline, unseen, split, origins, 1, reducer))
        EXPECT_EQ(x, 0) << baseline->name();
      EXPECT_TRUE(run(*baseline, constant, split, {}, 1, reducer).empty());
    }
  }
}

TEST(Baselines, SingularRidgeIsTheUsersError) {
  const Series series = waves(60, 5);
  OneRankReducer reducer;
  EXPECT_THROW(make_ridge_var({.ridge = 0})->fit(series, make_split(60, {.train = "40"}), reducer),
               UserError);
}

TEST(TimeOfWeek, IsTheMeanOfTheSameHourOfTheSameWeekday) {
  // Twelve days of six-hourly steps from a Monday; the weekdays of the last two test days were seen once.
  const Index steps = 48;
  const TimeAxis axis = TimeAxis::regular(steps, "hours since 2001-01-01", 0, 6);
  Series series(steps, 2, 1);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < 2; ++i) series.at(t, i, 0) = static_cast<float>(100 * i + t);
  series.at(11, 1, 0) = NAN;  // Wednesday 18:00, seen again on step 39
  const Split split = make_split(steps, {.train = "40", .validation = "0", .test = "rest"});
  OneRankReducer reducer;
  const auto baseline = make_time_of_week(axis);
  ASSERT_NE(baseline, nullptr);
  baseline->fit(series, split, reducer);
  const std::vector<Index> origins{39, 41};
  baseline->forecast(series, origins, 2, reducer, [&](Index horizon, NodeView<const float> x) {
    for (Index o = 0; o < 2; ++o)
      for (Index i = 0; i < 2; ++i) {
        const Index step = origins[static_cast<std::size_t>(o)] + horizon;
        EXPECT_FLOAT_EQ(*x.at(i, o), static_cast<float>(100 * i + step - 28)) << "a week before";
      }
  });
  // Training has only the first three days: Thursday falls back on the same hour of any day.
  const Split early = make_split(steps, {.train = "12", .validation = "0", .test = "rest"});
  baseline->fit(series, early, reducer);
  const std::vector<Index> third{11};
  baseline->forecast(series, third, 4, reducer, [&](Index horizon, NodeView<const float> x) {
    const double same_hour = static_cast<double>(horizon - 1) + 4;  // steps h, h + 4, h + 8
    EXPECT_FLOAT_EQ(*x.at(0, 0), static_cast<float>(same_hour));
    EXPECT_FLOAT_EQ(*x.at(1, 0), static_cast<float>(100 + same_hour - (horizon == 4 ? 2 : 0)));
  });
}

TEST(AnnualCycle, IsTheMeanOfTheSameMonth) {
  // Three and a half years from November; one node misses every March of training.
  const Index steps = 42;
  Series series(steps, 2, 1);
  double sum = 0, count = 0;
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < 2; ++i) {
      const bool march = (t + 10) % 12 == 2;
      series.at(t, i, 0) = i == 1 && march ? NAN : static_cast<float>(1000 * i + t * t);
      if (i == 1 && t < 36 && !march) sum += 1000 + static_cast<double>(t * t), ++count;
    }
  const Split split = make_split(steps, {.train = "36", .validation = "0", .test = "rest"});
  OneRankReducer reducer;
  const auto baseline = make_annual_cycle(TimeAxis::monthly(steps, "2001-11"));
  ASSERT_NE(baseline, nullptr);
  EXPECT_EQ(baseline->name(), "annual_cycle");
  baseline->fit(series, split, reducer);
  const std::vector<Index> origins{35};
  baseline->forecast(series, origins, 6, reducer, [&](Index horizon, NodeView<const float> x) {
    const Index t = 35 + horizon;
    const double mean =
        static_cast<double>((t - 12) * (t - 12) + (t - 24) * (t - 24) + (t - 36) * (t - 36)) / 3;
    EXPECT_FLOAT_EQ(*x.at(0, 0), static_cast<float>(mean));
    const bool march = (t + 10) % 12 == 2;
    EXPECT_FLOAT_EQ(*x.at(1, 0), static_cast<float>(march ? sum / count : 1000 + mean)) << horizon;
  });
}

TEST(AnnualCycle, NeedsDatesAndTwoYearsOfMonths) {
  EXPECT_EQ(make_annual_cycle(TimeAxis::counter(100)), nullptr);
  EXPECT_EQ(make_annual_cycle(TimeAxis::monthly(23, "2001-01")), nullptr);
  EXPECT_NE(make_annual_cycle(TimeAxis::monthly(24, "2001-01")), nullptr);
  EXPECT_EQ(make_annual_cycle(TimeAxis::regular(10, "days since 2001-01-01", 0, 365)), nullptr);
  const auto days = [](std::vector<double> values) {
    return make_annual_cycle(
        TimeAxis::parse(std::move(values), "days since 2001-01-01", "standard", "a list of days"));
  };
  const std::vector<double> quarters{0, 90, 181, 273, 365, 455, 546, 638};
  EXPECT_NE(days(quarters), nullptr) << "of two years";
  EXPECT_EQ(days({quarters.begin(), quarters.end() - 1}), nullptr);
  EXPECT_EQ(days({0, 151, 304, 455, 608, 761, 911}), nullptr) << "five months are no part of a year";
  EXPECT_EQ(make_annual_cycle(TimeAxis::regular(729, "days since 2001-01-01", 0, 1)), nullptr);
  EXPECT_NE(make_annual_cycle(TimeAxis::regular(730, "days since 2001-01-01", 0, 1)), nullptr);
  const auto thirties = [](Index months) {
    std::vector<double> values;
    for (Index t = 0; t < months; ++t) values.push_back(static_cast<double>(30 * t));
    return make_annual_cycle(
        TimeAxis::parse(std::move(values), "days since 2001-01-01", "360_day", "months of 30 days"));
  };
  EXPECT_EQ(thirties(23), nullptr);
  EXPECT_NE(thirties(24), nullptr);
}

TEST(TimeOfWeek, OfDailySeriesIsTheMeanOfTheWeekday) {
  const Index steps = 24;
  Series series(steps, 1, 1);
  for (Index t = 0; t < steps; ++t) series.at(t, 0, 0) = static_cast<float>(t * t);
  const Split split = make_split(steps, {.train = "17", .validation = "0", .test = "rest"});
  OneRankReducer reducer;
  const auto baseline = make_time_of_week(TimeAxis::regular(steps, "days since 2001-01-01", 0, 1));
  ASSERT_NE(baseline, nullptr);
  baseline->fit(series, split, reducer);
  const std::vector<Index> origins{16};
  baseline->forecast(series, origins, 5, reducer, [&](Index horizon, NodeView<const float> x) {
    float sum = 0, count = 0;
    for (Index t = (16 + horizon) % 7; t < 17; t += 7, ++count) sum += static_cast<float>(t * t);
    EXPECT_FLOAT_EQ(*x.at(0, 0), sum / count);
  });
}

TEST(TimeOfWeek, NeedsDatesAndStepsThatDivideADay) {
  EXPECT_EQ(make_time_of_week(TimeAxis::counter(10)), nullptr);
  EXPECT_EQ(make_time_of_week(TimeAxis::regular(10, "days since 2001-01-01", 0, 2)), nullptr);
  EXPECT_EQ(make_time_of_week(TimeAxis::regular(10, "hours since 2001-01-01", 0, 7)), nullptr);
  EXPECT_EQ(make_time_of_week(TimeAxis::monthly(10, "2001-01")), nullptr);
  EXPECT_NE(make_time_of_week(TimeAxis::regular(10, "minutes since 2001-01-01", 0, 5)), nullptr);
}

}  // namespace
}  // namespace rossby
