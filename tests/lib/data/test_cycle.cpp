#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/series.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using testing_support::user_message;

using test::nan;
constexpr Index day = 24;

/// Hours from Monday 2012-03-05.
TimeAxis hours(Index steps) {
  return TimeAxis::regular(steps, "hours since 2012-03-05", 0, 1);
}

AnomalySpec spec_of(CycleKind kind, double shrink = 0, double smooth_minutes = 0) {
  AnomalySpec spec;
  spec.cycle = {kind, 2, shrink, smooth_minutes};
  return spec;
}

Series noisy(Index steps, Index rows, Index features = 1) {
  Series series(steps, rows, features);
  const Random random(5, "cycle");
  for (Index c = 0; c < series.values.size(); ++c)
    series.values[c] = static_cast<float>(20 + 3 * random.normal(static_cast<std::uint64_t>(c)));
  return series;
}

/// Anomalies of a series whose first steps are the training part.
struct Fitted {
  AnomalyMap map;
  Series anomalies;
};

Fitted fit(const Series& series, const TimeAxis& axis, const AnomalySpec& spec, Index training,
           Reducer& reducer) {
  Fitted fitted{{}, Series(series.steps, series.rows, series.features)};
  std::copy(series.values.begin(), series.values.end(), fitted.anomalies.values.begin());
  std::vector<Index> steps(static_cast<std::size_t>(training));
  std::iota(steps.begin(), steps.end(), Index{0});
  AnomalyMap::Training data;
  data.rows = series.rows;
  data.features = series.features;
  data.steps = data.own = steps;
  data.at = [&](Index t) { return series.at(t); };
  std::vector<AnomalyMap::View> without, full;
  for (Index t = 0; t < series.steps; ++t)
    (t < training ? without : full)
        .push_back({t, fitted.anomalies.values.data() + t * series.rows * series.features});
  fitted.map = AnomalyMap::fit(data, axis, spec, without, full, reducer);
  return fitted;
}

Fitted fit(const Series& series, const TimeAxis& axis, const AnomalySpec& spec, Index training) {
  OneRankReducer reducer;
  return fit(series, axis, spec, training, reducer);
}

std::string refusal(const Series& series, const TimeAxis& axis, const AnomalySpec& spec, Index training) {
  return user_message([&] { (void)fit(series, axis, spec, training); });
}

TEST(Cycle, MeansOfTheSameHourWithoutTheOwnDay) {
  const Index steps = 4 * day, training = 3 * day;
  const Series series = noisy(steps, 2);
  const Fitted fitted = fit(series, hours(steps), spec_of(CycleKind::time_of_day), training);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < 2; ++i) {
      double all = 0, others = 0;
      for (Index d = 0; d < 3; ++d) {
        const double x = series.at(d * day + t % day, i, 0);
        all += x / 3;
        if (d != t / day) others += x / 2;
      }
      EXPECT_NEAR(fitted.map.base(t, i), all, 1e-5);
      const double base = t < training ? others : all;
      EXPECT_NEAR(fitted.anomalies.at(t, i, 0), series.at(t, i, 0) - base, 1e-5) << t;
    }
}

TEST(Cycle, ADayTypeHasItsOwnMeansAndWithoutValuesThoseOfTheHour) {
  // Monday to Saturday. A Sunday counts as weekend; training has no value of a second weekend.
  const Index steps = 7 * day, training = 6 * day;
  Series series(steps, 1, 1);
  for (Index t = 0; t < steps; ++t)
    series.at(t, 0, 0) = static_cast<float>(t / day < 5 ? 10 + t % day + t / day : 50 + t % day);
  const Fitted fitted = fit(series, hours(steps), spec_of(CycleKind::day_type), training);
  for (Index h = 0; h < day; ++h) {
    const auto hour = static_cast<double>(h);
    EXPECT_NEAR(fitted.map.base(h, 0), 12 + hour, 1e-5) << "mean of five weekdays";
    EXPECT_NEAR(fitted.map.base(6 * day + h, 0), 50 + hour, 1e-5) << "Sunday is as Saturday";
    // Monday without itself: four weekdays.
    EXPECT_NEAR(fitted.anomalies.at(h, 0, 0), 10 - 12.5, 1e-4);
    // Saturday without itself: only the mean of this hour on other days is left.
    EXPECT_NEAR(fitted.anomalies.at(5 * day + h, 0, 0), 50 - 12, 1e-4);
  }
}

TEST(Cycle, ShrinksTowardsTheCoarserOneByTheNumberOfValues) {
  // Two weeks; strengths are pooled ratios of variances, one for all nodes.
  const Index steps = 15 * day, training = 14 * day;
  const Series series = noisy(steps, 3);
  const auto base = [&](double shrink) {
    return fit(series, hours(steps), spec_of(CycleKind::time_of_week, shrink), training).map.base(5, 1);
  };
  double own = 0, hour = 0;
  for (Index d = 0; d < 14; ++d) {
    const double x = series.at(d * day + 5, 1, 0);
    hour += x / 14;
    if (d % 7 == 0) own += x / 2;
  }
  EXPECT_NEAR(base(0), own, 1e-5) << "two Mondays";
  double mean = 0;
  for (Index t = 0; t < training; ++t) mean += series.at(t, 1, 0) / training;
  // Noise has no cycle: more shrinkage brings it closer to the mean of the node.
  EXPECT_LT(std::abs(base(1) - mean), std::abs(own - mean));
  EXPECT_LT(std::abs(base(1e6) - mean), 0.6);
}

TEST(Cycle, SmoothsOverNeighbouringHoursThatHaveValues) {
  const Index steps = 3 * day, training = 2 * day;
  Series series(steps, 1, 1);
  for (Index t = 0; t < steps; ++t) series.at(t, 0, 0) = t % day == 12 ? 24.0F : t % day == 14 ? nan : 0.0F;
  const Fitted fitted = fit(series, hours(steps), spec_of(CycleKind::time_of_day, 0, 60), training);
  const auto w = [](double by) { return std::exp(-by * by / 2); };
  const double all = w(0) + 2 * (w(1) + w(2) + w(3));
  EXPECT_NEAR(fitted.map.base(10, 0), 24 * w(2) / all, 1e-4);
  EXPECT_NEAR(fitted.map.base(12, 0), 24 * w(0) / (all - w(2)), 1e-4) << "14 h has no values";
  EXPECT_NEAR(fitted.map.base(0, 0), 0, 1e-6);
  EXPECT_NEAR(fitted.anomalies.at(12, 0, 0), 24 - 24 * w(0) / (all - w(2)), 1e-4);
  EXPECT_TRUE(std::isnan(fitted.anomalies.at(14, 0, 0)));
}

TEST(Cycle, MonthsOfYearsAndTheirHarmonics) {
  const Index years = 6, steps = 12 * years, training = 12 * (years - 1);
  const TimeAxis axis = TimeAxis::monthly(steps, "1990-01");
  const auto wave = [](Index t, double amplitude) {
    return amplitude * std::cos(2 * M_PI * (static_cast<double>(t % 12) * 30.5 + 0.5) / 366);
  };
  Series series(steps, 2, 1);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < 2; ++i)
      series.at(t, i, 0) = static_cast<float>(7 + wave(t, i == 0 ? 3 : -2) + (t / 12 == 2 ? 5 : 0));
  const Fitted month = fit(series, axis, spec_of(CycleKind::month), training);
  for (const Index t : {Index{3}, 24 + Index{3}, training + 3}) {
    const double others = 7 + wave(3, 3) + (t == 27 ? 0 : t < training ? 1.25 : 1);
    EXPECT_NEAR(month.anomalies.at(t, 0, 0), series.at(t, 0, 0) - others, 1e-4) << t;
  }
  // Nodes with opposite seasons are not pulled to their mean: the difference is not noise.
  const Fitted harmonic = fit(series, axis, spec_of(CycleKind::day_of_year, 1), training);
  for (const Index t : {training + 0, training + 6})
    for (Index i = 0; i < 2; ++i) EXPECT_NEAR(harmonic.anomalies.at(t, i, 0), -1, 0.35) << t << " " << i;
}

TEST(Cycle, HarmonicsOfSparseNodesDoNotBlowUp) {
  // One node has one month in two years; for the rest of the year it takes the cycle of the others.
  const Index steps = 3 * 365, training = 2 * 365;
  const TimeAxis axis = TimeAxis::regular(steps, "days since 2001-01-01", 0, 1);
  Series series = noisy(steps, 5);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < 5; ++i) {
      const auto day_of_year = static_cast<double>(t % 365);
      series.at(t, i, 0) += static_cast<float>(10 * std::cos(2 * M_PI * day_of_year / 365));
      if (i == 4 && t % 365 > 20) series.at(t, i, 0) = nan;
    }
  const Fitted fitted = fit(series, axis, spec_of(CycleKind::day_of_year, 1), training);
  for (Index t = training; t < steps; ++t)
    for (Index i = 0; i < 5; ++i)
      EXPECT_NEAR(fitted.map.base(t, i), 20 + 10 * std::cos(2 * M_PI * static_cast<double>(t % 365) / 365),
                  13 * (i == 4) + 1.5)
          << t << " " << i;
}

TEST(Cycle, ANodeWithoutValuesHasTheCycleOfAll) {
  const Index steps = 3 * day, training = 2 * day;
  Series series(steps, 3, 1);
  for (Index t = 0; t < steps; ++t) {
    series.at(t, 0, 0) = static_cast<float>(10 + t % day);
    series.at(t, 1, 0) = static_cast<float>(10 + t % day);
    series.at(t, 2, 0) = t < training ? nan : 1.0F;
  }
  const Fitted fitted = fit(series, hours(steps), spec_of(CycleKind::time_of_day, 1), training);
  for (Index t = training; t < steps; ++t)
    EXPECT_NEAR(fitted.map.base(t, 2), 10 + static_cast<double>(t % day), 1e-3);
  Series empty(steps, 0, 1);
  EXPECT_TRUE(fit(empty, hours(steps), spec_of(CycleKind::time_of_day, 1), training).map.on());
}

TEST(Cycle, TrendsGoOnAndAreNoSeason) {
  const Index steps = 60, training = 42;  // half a season must not bend the trend
  const TimeAxis axis = TimeAxis::monthly(steps, "1990-01");
  Series series(steps, 1, 1);
  for (Index t = 0; t < steps; ++t)
    series.at(t, 0, 0) = static_cast<float>(
        0.5 * static_cast<double>(axis.values()[static_cast<std::size_t>(t)]) / 30 + (t % 12 < 6 ? 4 : -4));
  AnomalySpec spec = spec_of(CycleKind::month);
  spec.trend = true;
  const Fitted fitted = fit(series, axis, spec, training);
  for (Index t = 0; t < steps; ++t) EXPECT_NEAR(fitted.anomalies.at(t, 0, 0), 0, 2e-3) << t;
  // Beyond the end of the axis.
  AnomalyMap map = fitted.map;
  map.extend(axis, 12);
  const double year = map.base(59 + 12, 0) - map.base(59, 0);
  EXPECT_NEAR(year, 0.5 * 365 / 30, 1e-2);
  // A counter of steps has trends, but no cycle.
  AnomalySpec trend;
  trend.trend = true;
  Series line(10, 1, 1);
  for (Index t = 0; t < 10; ++t) line.at(t, 0, 0) = static_cast<float>(3 + 2 * t);
  const Fitted counted = fit(line, TimeAxis::counter(10), trend, 6);
  EXPECT_NEAR(counted.anomalies.at(9, 0, 0) - counted.anomalies.at(0, 0, 0), 0, 1e-5);
}

TEST(Cycle, TransformsComeFirstAndGoBack) {
  const Index steps = 3 * day, training = 2 * day;
  Series series(steps, 1, 1);
  for (Index t = 0; t < steps; ++t) series.at(t, 0, 0) = static_cast<float>(t % day == 0 ? 0 : t % 7 * 3 + 1);
  for (const char* name : {"sqrt", "log", "asinh"}) {
    AnomalySpec spec = spec_of(CycleKind::time_of_day, 1);
    spec.transform = Transform::of(name, 1);
    const Fitted fitted = fit(series, hours(steps), spec, training);
    for (Index t = training; t < steps; ++t) {
      EXPECT_NEAR(fitted.map.to_value(fitted.anomalies.at(t, 0, 0), t, 0), series.at(t, 0, 0), 1e-4) << name;
      EXPECT_NEAR(fitted.map.to_observation(fitted.anomalies.at(t, 0, 0), t, 0), series.at(t, 0, 0), 1e-4);
    }
    EXPECT_EQ(fitted.map.to_observation(fitted.anomalies.at(training, 0, 0), training, 0), 0) << name;
    // The mean of values symmetric about a median, compared with ten thousand draws.
    const Random random(1, name);
    double mean = 0;
    const double z = 1.5, deviation = 0.3;
    for (std::uint64_t k = 0; k < 10000; ++k)
      mean += spec.transform.inverse(z + deviation * random.normal(k)) / 10000;
    EXPECT_NEAR(spec.transform.mean(z, deviation * deviation), mean, 0.02 * std::abs(mean)) << name;
  }
}

TEST(Cycle, BadInputHasAClearLine) {
  const Index steps = 3 * day;
  const Series series = noisy(steps, 1);
  const auto says = [&](const TimeAxis& axis, CycleKind kind, Index training, const char* text) {
    const std::string message = refusal(series, axis, spec_of(kind), training);
    EXPECT_NE(message.find(text), std::string::npos) << message;
    EXPECT_NE(message.find("data.cycle"), std::string::npos) << message;
  };
  says(TimeAxis::counter(steps), CycleKind::month, 48, "no dates");
  says(hours(steps), CycleKind::time_of_day, 24, "only one day");
  says(hours(steps), CycleKind::month, 48, "only one year");
  says(TimeAxis::regular(steps, "days since 2000-01-01", 0, 1), CycleKind::time_of_day, 48, "one step a day");
  says(TimeAxis::regular(steps, "hours since 2000-01-01", 0, 7), CycleKind::day_type, 48,
       "does not divide a day");
  says(TimeAxis::monthly(steps, "1990-01"), CycleKind::time_of_week, 48, "does not divide a day");
  std::vector<double> odd(static_cast<std::size_t>(steps));
  for (std::size_t t = 0; t < odd.size(); ++t) odd[t] = std::sqrt(static_cast<double>(t) + 1);
  says(TimeAxis::parse(odd, "days since 2000-01-01", "standard", "x"), CycleKind::day_of_year, 48,
       "not regular");
  Series negative = noisy(steps, 1);
  negative.at(2, 0, 0) = -5;
  AnomalySpec spec;
  spec.transform = Transform::of("log", 1);
  const std::string message = refusal(negative, hours(steps), spec, 48);
  EXPECT_NE(message.find("not defined for 1 values"), std::string::npos) << message;
  EXPECT_NE(message.find("transform_offset"), std::string::npos) << message;
}

TEST(Cycle, ValuesBehindTheTrainingPartChangeNothingInIt) {
  const Index steps = 20 * day, training = 14 * day;
  for (const CycleKind kind : {CycleKind::time_of_day, CycleKind::day_type, CycleKind::time_of_week}) {
    AnomalySpec spec = spec_of(kind, 1, 60);
    spec.trend = true;
    Series series = noisy(steps, 3, 2);
    const Fitted before = fit(series, hours(steps), spec, training);
    for (Index k = training * 6; k < series.values.size(); ++k) series.values[k] += 100;
    const Fitted behind = fit(series, hours(steps), spec, training);
    for (Index k = 0; k < training * 6; ++k)
      ASSERT_EQ(before.anomalies.values[k], behind.anomalies.values[k]) << k;
    for (Index t = 0; t < steps; ++t) ASSERT_EQ(before.map.base(t, 3), behind.map.base(t, 3));
  }
}

}  // namespace
}  // namespace rossby
