#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/data/windows.hpp"
#include "rossby/exchange/step_exchange.hpp"
#include "tests/support/values.hpp"

// Windows as numbers: which windows exist, and the values read through them.

namespace rossby {
namespace {

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

Split split_of(Index steps, const char* train, const char* validation = "0", Index folds = 0,
               Index fold = 0) {
  return make_split(steps, {train, validation, "rest", folds, fold});
}

using test::range;

TEST(Windows, OfTheTrainingPartLieInIt) {
  const Split split = split_of(20, "12");
  EXPECT_EQ(training_windows(split, {3, 2}, 1, {}), range(0, 8));
  EXPECT_EQ(training_windows(split, {3, 2}, 3, {}), (std::vector<Index>{0, 3, 6}));
  EXPECT_EQ(training_windows(split, {11, 1}, 1, {}), range(0, 1));
  EXPECT_EQ(training_windows(split, {1, 1}, 1, {}), range(0, 11));
}

TEST(Windows, CrossNeitherBreaksNorHeldOutFolds) {
  // The join lies between steps 4 and 5: a window may end at 4 or begin at 5.
  const std::vector<Index> breaks{4};
  EXPECT_EQ(training_windows(split_of(20, "12"), {2, 2}, 1, breaks), (std::vector<Index>{0, 1, 5, 6, 7, 8}));
  const Split held = split_of(20, "12", "0", 3, 1);  // steps 4-7 are held out
  EXPECT_EQ(training_windows(held, {2, 1}, 1, {}), (std::vector<Index>{0, 1, 8, 9}));
  const auto origins = held.origins(Role::validation, 2);
  EXPECT_EQ(window_origins(origins, {3, 2}, 2, {}), origins);
}

TEST(Windows, ThatDoNotFitAreAnErrorThatSaysHowLongTheLongestStretchIs) {
  const std::vector<Index> breaks{4};
  try {
    (void)training_windows(split_of(20, "12"), {6, 3}, 1, breaks);
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("window.inputs = 6, window.outputs = 3"), std::string::npos) << text;
    EXPECT_NE(text.find("has 7 steps"), std::string::npos) << text;
  }
}

TEST(Windows, OriginsNeedTheirInputsAndNoBreak) {
  const std::vector<Index> origins = range(0, 10);
  const std::vector<Index> breaks{6};
  EXPECT_EQ(window_origins(origins, {3, 2}, 2, {}), range(2, 10));
  EXPECT_EQ(window_origins(origins, {3, 2}, 2, breaks), (std::vector<Index>{2, 3, 4, 9}));
  EXPECT_EQ(window_origins(origins, {3, 2}, 1, breaks), (std::vector<Index>{2, 3, 4, 5, 9}));
}

TEST(Windows, BreaksAreTheGapsOfTheTimeAxis) {
  const TimeAxis axis = TimeAxis::parse({0, 1, 2, 5, 6, 9}, "hours since 2001-01-01", "standard", "a file");
  EXPECT_EQ(time_breaks(axis), (std::vector<Index>{2, 4}));
}

TEST(TimeFeatures, AreFractionOfTheDayAndDayOfTheWeek) {
  // 2012-03-01 was a Thursday.
  const TimeAxis axis = TimeAxis::regular(4, "hours since 2012-03-01", 6, 18);
  const TimeFeatures both = TimeFeatures::of(axis, {.time_of_day = true, .day_of_week = true});
  ASSERT_EQ(both.channels, 2);
  EXPECT_EQ(both.values,
            (std::vector<float>{0.25F, 3 / 7.0F, 0.0F, 4 / 7.0F, 0.75F, 4 / 7.0F, 0.5F, 5 / 7.0F}));
  EXPECT_EQ(TimeFeatures::of(axis, {}).channels, 0);
  const TimeAxis early = TimeAxis::regular(1, "hours since 1969-12-31", 23, 1);  // a Wednesday
  EXPECT_EQ(TimeFeatures::of(early, {.day_of_week = true}).values, (std::vector<float>{2 / 7.0F}));
  EXPECT_THROW((void)TimeFeatures::of(TimeAxis::counter(4), {.time_of_day = true}), UserError);
}

TEST(TimeFeatures, TurnWithTheYear) {
  // 2012 is a leap year: its middle is the end of 1 July; 2013's is noon of 2 July.
  const TimeAxis axis = TimeAxis::parse({0, 183, 366, 366 + 182.5}, "days since 2012-01-01", "", "a file");
  const TimeFeatures year = TimeFeatures::of(axis, {.day_of_year = true});
  ASSERT_EQ(year.channels, 2);
  const float expected[] = {0, 1, 0, -1, 0, 1, 0, -1};
  ASSERT_EQ(year.values.size(), std::size(expected));
  for (std::size_t k = 0; k < year.values.size(); ++k) EXPECT_NEAR(year.values[k], expected[k], 1e-6) << k;
  const TimeAxis short_year =
      TimeAxis::parse({0, 90, 180, 270}, "days since 2001-01-01", "360_day", "a file");
  const TimeFeatures quarters = TimeFeatures::of(short_year, {.day_of_year = true});
  const float turns[] = {0, 1, 1, 0, 0, -1, -1, 0};
  for (std::size_t k = 0; k < quarters.values.size(); ++k)
    EXPECT_NEAR(quarters.values[k], turns[k], 1e-6) << k;
}

TEST(TimeFeatures, HolidaysAreTheStepsOfTheirDays) {
  const TimeAxis axis = TimeAxis::regular(8, "hours since 2012-03-01", 6, 12);  // 6 and 18 h of four days
  const auto holidays = [](const TimeAxis& of, std::vector<std::string> dates) {
    return TimeFeatures::of(of, {.holidays = std::move(dates)}).values;
  };
  EXPECT_EQ(holidays(axis, {"2012-03-02", "2012-03-04", "2030-01-01"}),
            (std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1}));
  // A week has the holiday that begins in it.
  EXPECT_EQ(holidays(TimeAxis::regular(3, "days since 2012-03-01", 0, 7), {"2012-03-14"}),
            (std::vector<float>{0, 1, 0}));
  const TimeFeatures all = TimeFeatures::of(axis, {true, true, true, {"2012-03-01"}});
  EXPECT_EQ(all.channels, 5);
  EXPECT_EQ(all.values[4], 1);
  EXPECT_EQ(all.values[4 + 5 * 2], 0);
}

TEST(TimeFeatures, RefuseHolidaysThatAreNone) {
  const TimeAxis axis = TimeAxis::regular(8, "hours since 2012-03-01", 6, 12);
  const auto refusal = [](const TimeAxis& of, const char* date) -> std::string {
    try {
      (void)TimeFeatures::of(of, {.holidays = {date}});
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* date : {"", "2012-03", "2012-02-30", "Christmas", "2012-03-01T06"})
    EXPECT_NE(refusal(axis, date).find("is not a day in the calendar"), std::string::npos) << date;
  EXPECT_NE(refusal(axis, "2013-03-01").find("2012-03-01T06:00 to 2012-03-04T18:00"), std::string::npos);
  EXPECT_NE(refusal(TimeAxis::counter(4), "2012-03-01").find("window.holidays: the time axis counts steps"),
            std::string::npos);
}

Series counting(Index steps, Index rows, Index features) {
  Series series(steps, rows, features);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < rows; ++i)
      for (Index f = 0; f < features; ++f) series.at(t, i, f) = static_cast<float>(100 * t + 10 * i + f);
  return series;
}

TEST(SeriesReader, ReadsAnyStepsScaledWithTimesBehind) {
  OneGroup alone;
  for (const Index rows : {0, 1, 67, 1300}) {
    Series series = counting(9, rows, 2);
    if (rows > 0) series.at(4, rows - 1, 1) = missing;
    StepStore store(9, rows, 2, {range(0, 9)}, alone);
    std::copy(series.values.begin(), series.values.end(), store.values().begin());
    const Scaler scaler(rows, 2, std::vector<double>(static_cast<std::size_t>(2 * rows), 5.0),
                        std::vector<double>(static_cast<std::size_t>(2 * rows), 4.0), 2.0);
    TimeFeatures times;
    times.channels = 1;
    for (Index t = 0; t < 9; ++t) times.values.push_back(static_cast<float>(t) / 9);
    const std::vector<Index> steps{4, 0, 4, 8, 7, 6, 5, 4, 3, 2, 1, 8, 8, 8};
    const auto cols = static_cast<Index>(steps.size());
    for (const Fill fill : {Fill::mean, Fill::zero}) {
      const SeriesReader<double> reader(store, scaler, times, fill);
      EXPECT_EQ(reader.channels(), 3);
      for (const int threads : {1, 2}) {
        std::vector<double> values(static_cast<std::size_t>(rows * cols * 3));
        std::vector<float> truth(static_cast<std::size_t>(rows * cols * 2));
        const NodeView<double> out(values.data(), rows, cols, 3);
        const NodeView<float> target(truth.data(), rows, cols, 2);
        const Exec exec{Backend::cpu, threads};
        reader.read(exec, out, steps);
        reader.read_truth(exec, target, steps);
        for (Index i = 0; i < rows; ++i)
          for (Index b = 0; b < cols; ++b) {
            const Index step = steps[static_cast<std::size_t>(b)];
            for (Index f = 0; f < 2; ++f) {
              const float x = series.at(step, i, f);
              const double expected = std::isnan(x) ? (fill == Fill::zero ? -2.5 : 0.0) : (x - 5.0) / 2.0;
              EXPECT_DOUBLE_EQ(out.at(i, b)[f], expected);
              EXPECT_EQ(std::isnan(target.at(i, b)[f]), std::isnan(x));
              if (!std::isnan(x)) {
                EXPECT_EQ(target.at(i, b)[f], x);
                EXPECT_NEAR(out.at(i, b)[f] * reader.scale()[i * 2 + f] + reader.shift()[i * 2 + f], x, 1e-9);
              }
            }
            EXPECT_DOUBLE_EQ(out.at(i, b)[2], static_cast<double>(static_cast<float>(step) / 9));
          }
      }
    }
  }
}

TEST(SeriesReader, ReadsFurtherInputsBehindTheTimes) {
  OneGroup alone;
  constexpr Index rows = 3, m = 2, past = 1, known = 2, fixed = 2, steps = 5;
  StepStore store(steps, rows, m, {range(0, steps)}, alone, false, past + known);
  ASSERT_EQ(store.width(), rows * (m + past + known));
  // Values encode their place: 1000 · kind + 100 · step + 10 · row + channel.
  float* to = store.values().data();
  for (Index t = 0; t < steps; ++t)
    for (const auto& [kind, channels] : {std::pair<int, Index>{1, m}, {2, past}, {3, known}})
      for (Index i = 0; i < rows; ++i)
        for (Index f = 0; f < channels; ++f)
          *to++ = t == 3 && kind == 3 && i == 1 && f == 0
                      ? missing
                      : static_cast<float>(1000 * kind + 100 * t + 10 * i + f);
  const auto scaler = [](Index channels, double center) {
    const auto size = static_cast<std::size_t>(rows * channels);
    return Scaler(rows, channels, std::vector<double>(size, center), std::vector<double>(size, 2.0), 1.0);
  };
  const Scaler target = scaler(m, 1000), of_past = scaler(past, 2000), of_known = scaler(known, 3000);
  TimeFeatures times;
  times.channels = 1;
  for (Index t = 0; t < steps; ++t) times.values.push_back(static_cast<float>(t));
  std::vector<float> of_nodes;
  for (Index i = 0; i < rows; ++i)
    for (Index f = 0; f < fixed; ++f) of_nodes.push_back(static_cast<float>(-10 * i - f));
  const std::vector<Index> read{3, 0};
  for (const bool ahead : {false, true})
    for (const Fill fill : {Fill::mean, Fill::zero}) {
      const SeriesReader<double> reader(store, target, times, fill,
                                        {&of_past, &of_known, ahead, fixed, of_nodes});
      ASSERT_EQ(reader.channels(), m + 1 + past + known + fixed);
      ASSERT_EQ(reader.known_channels(), known + (ahead ? 1 : 0));
      std::vector<double> all(static_cast<std::size_t>(rows * 2 * reader.channels()), -7),
          next(static_cast<std::size_t>(rows * 2 * reader.known_channels()), -7);
      const NodeView<double> out(all.data(), rows, 2, reader.channels()),
          lead(next.data(), rows, 2, reader.known_channels());
      reader.read({}, out, read);
      reader.read_known({}, lead, read);
      for (Index i = 0; i < rows; ++i)
        for (Index b = 0; b < 2; ++b) {
          const Index t = read[static_cast<std::size_t>(b)];
          const auto place = [&](Index f) { return static_cast<double>(100 * t + 10 * i + f) / 2; };
          const auto is_missing = [&](Index f) { return t == 3 && i == 1 && f == 0; };
          const double filled = fill == Fill::zero ? -1500 : 0;
          std::vector<double> expected{place(0), place(1), static_cast<double>(t), place(0)}, coming;
          for (Index f = 0; f < known; ++f) coming.push_back(is_missing(f) ? filled : place(f));
          expected.insert(expected.end(), coming.begin(), coming.end());
          for (Index f = 0; f < fixed; ++f) expected.push_back(static_cast<double>(-10 * i - f));
          if (ahead) coming.push_back(static_cast<double>(t));
          EXPECT_EQ(std::vector<double>(out.at(i, b), out.at(i, b) + out.channels), expected)
              << i << " " << b;
          EXPECT_EQ(std::vector<double>(lead.at(i, b), lead.at(i, b) + lead.channels), coming)
              << i << " " << b;
        }
    }
}

}  // namespace
}  // namespace rossby
