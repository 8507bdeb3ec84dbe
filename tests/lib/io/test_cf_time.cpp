#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "rossby/io/calendar.hpp"
#include "rossby/io/cf_time.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::user_message;

TimeAxis axis(std::vector<double> values, const std::string& units,
              const std::string& calendar = "standard") {
  return TimeAxis::parse(std::move(values), units, calendar, "f.nc: variable time");
}

TEST(Calendar, KnownDays) {
  EXPECT_EQ(detail::days_from_civil(1970, 1, 1), 0);
  EXPECT_EQ(detail::days_from_civil(2000, 3, 1), 11017);
  EXPECT_EQ(detail::days_from_civil(1900, 3, 1) - detail::days_from_civil(1900, 2, 28), 1)
      << "1900 has no leap day";
  EXPECT_EQ(detail::days_from_civil(1, 1, 1), -719162);
  // The day after Julian 1582-10-04 is Gregorian 1582-10-15.
  EXPECT_EQ(detail::days_from_civil(1582, 10, 4, Calendar::julian) + 1,
            detail::days_from_civil(1582, 10, 15));
  EXPECT_EQ(detail::days_from_civil(1, 1, 1, Calendar::julian), -719164);
  for (const Calendar calendar : {Calendar::no_leap, Calendar::all_leap, Calendar::days_360})
    EXPECT_EQ(detail::days_from_civil(1970, 1, 1, calendar), 0);
  EXPECT_EQ(detail::days_from_civil(1850, 1, 1, Calendar::no_leap), -120 * 365);
  EXPECT_EQ(detail::days_from_civil(2000, 3, 1, Calendar::no_leap), 30 * 365 + 59);
  EXPECT_EQ(detail::days_from_civil(2001, 3, 1, Calendar::all_leap), 31 * 366 + 60);
  EXPECT_EQ(detail::days_from_civil(1960, 2, 30, Calendar::days_360), -10 * 360 + 59);
}

constexpr Calendar all_calendars[] = {Calendar::gregorian, Calendar::standard, Calendar::julian,
                                      Calendar::no_leap,   Calendar::all_leap, Calendar::days_360};

TEST(Calendar, DaysAndDatesAreInverse) {
  for (const Calendar calendar : all_calendars)
    for (std::int64_t day = -800000; day < 800000; day += 37) {
      const auto time = detail::civil(day * day_milliseconds + 5, calendar);
      EXPECT_EQ(detail::days_from_civil(time.year, time.month, time.day, calendar), day);
      EXPECT_EQ(time.in_day, 5);
    }
}

TEST(Calendar, EachDayFollowsTheOneBefore) {
  for (const Calendar calendar : all_calendars) {
    auto before = detail::civil(detail::days_from_civil(-5, 1, 1, calendar) * day_milliseconds, calendar);
    for (std::int64_t day = detail::days_from_civil(-5, 1, 2, calendar);
         day < detail::days_from_civil(405, 1, 1, calendar); ++day) {
      const auto time = detail::civil(day * day_milliseconds, calendar);
      const bool new_month = before.day == detail::days_in_month(before.year, before.month, calendar);
      ASSERT_EQ(time.day, new_month ? 1 : before.day + 1);
      ASSERT_EQ(detail::month_index(time), detail::month_index(before) + (new_month ? 1 : 0));
      before = time;
    }
  }
}

TEST(Calendar, TheStandardOneChangesOnADay) {
  EXPECT_EQ(detail::days_from_civil(1582, 10, 4, Calendar::standard) + 1,
            detail::days_from_civil(1582, 10, 15, Calendar::standard));
  for (const int year : {850, 1500, 1582})
    EXPECT_EQ(detail::days_from_civil(year, 1, 1, Calendar::standard),
              detail::days_from_civil(year, 1, 1, Calendar::julian));
  EXPECT_EQ(detail::days_from_civil(1700, 1, 1, Calendar::standard), detail::days_from_civil(1700, 1, 1));
  EXPECT_EQ(detail::days_in_month(1500, 2, Calendar::standard), 29);
  EXPECT_EQ(detail::days_in_month(1700, 2, Calendar::standard), 28);
}

TEST(TimeAxis, MonthsBeforeTheGregorianCalendarAreMonths) {
  std::vector<double> values;
  for (std::int64_t month = 12 * 1580; month < 12 * 1585; ++month)
    values.push_back(static_cast<double>(
        (detail::month_start(month, Calendar::standard) - detail::month_start(12 * 850, Calendar::julian)) /
        day_milliseconds));
  const TimeAxis time = axis(values, "days since 0850-01-01");
  EXPECT_EQ(time.step_text(), "1 month");
  EXPECT_TRUE(time.regular());
  EXPECT_EQ(time.text(0), "1580-01");
  EXPECT_EQ(time.text(12 * 2 + 9), "1582-10");
  EXPECT_EQ(time.text(12 * 5 - 1), "1584-12");
  EXPECT_EQ(time.step_of("1581-03"), 14);
  EXPECT_EQ(axis({0}, "days since 0850-01-01").text(0), "0850-01-01");
  EXPECT_EQ(axis({0}, "days since 0850-01-01", "proleptic_gregorian").text(0), "0850-01-01");
  EXPECT_EQ(TimeAxis::monthly(24, "1500-01").step_text(), "1 month");
}

TEST(TimeAxis, MonthlyIsRegularInMonths) {
  const TimeAxis time = axis({0, 31, 59, 90, 120}, "days since 1970-01-01");
  EXPECT_EQ(time.spacing(), TimeAxis::Spacing::months);
  EXPECT_EQ(time.step_months(), 1);
  EXPECT_EQ(time.step_text(), "1 month");
  EXPECT_TRUE(time.regular());
  EXPECT_TRUE(time.gaps().empty());
  EXPECT_EQ(time.text(0), "1970-01");
  EXPECT_EQ(time.text(4), "1970-05");
}

TEST(TimeAxis, MonthlyContinuesMonthlyOverLeapYears) {
  const TimeAxis time = TimeAxis::monthly(12 * 3 + 1, "2001-01");  // to 2004-01
  const TimeAxis next = time.after(time.size() - 1, 3);
  EXPECT_EQ(next.text(0), "2004-02");
  EXPECT_EQ(next.text(1), "2004-03");
  EXPECT_EQ(next.text(2), "2004-04");
  EXPECT_EQ(next.values()[1] - next.values()[0], 29);
  EXPECT_EQ(time.lead(36, next.values()[0]), 31);
  const TimeAxis half = time.after(34, 4);  // two of the file, two beyond
  EXPECT_EQ(half.text(0), "2003-12");
  EXPECT_EQ(half.text(3), "2004-03");
}

TEST(TimeAxis, MonthEndsStayMonthEnds) {
  const TimeAxis time = axis({30, 58, 89, 119}, "days since 1970-01-01");  // Jan 31, Feb 28, Mar 31, Apr 30
  EXPECT_EQ(time.spacing(), TimeAxis::Spacing::months);
  EXPECT_EQ(time.after(3, 2).text(0), "1970-05-31");
  EXPECT_EQ(time.after(3, 2).text(1), "1970-06-30");
}

TEST(TimeAxis, DayTwentyEightIsNoMonthEnd) {
  const TimeAxis time = axis({58 - 31, 58, 58 + 28}, "days since 1970-01-01");  // Jan 28, Feb 28, Mar 28
  EXPECT_EQ(time.spacing(), TimeAxis::Spacing::months);
  EXPECT_EQ(time.after(2, 1).text(0), "1970-04-28");
}

TEST(TimeAxis, MidMonthStampsAreMonthly) {
  std::vector<double> values;
  double start = 0;
  for (const int days : {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31}) {
    values.push_back(start + days / 2.0);
    start += days;
  }
  const TimeAxis time = axis(values, "days since 1970-01-01");
  EXPECT_EQ(time.spacing(), TimeAxis::Spacing::months);
  EXPECT_TRUE(time.regular());
  EXPECT_EQ(time.after(12, 1).text(0), "1971-02-15");
  EXPECT_EQ(time.find("1970-03-02"), 2);
  EXPECT_EQ(time.find("1970-03-30"), 2);
  EXPECT_EQ(time.find("1971-02"), std::nullopt);
}

TEST(TimeAxis, MonthlyGapIsCounted) {
  const TimeAxis time = axis({0, 31, 120, 151}, "days since 1970-01-01");
  EXPECT_EQ(time.spacing(), TimeAxis::Spacing::months);
  ASSERT_EQ(time.gaps().size(), 1u);
  EXPECT_EQ(time.gaps()[0].after, 1);
  EXPECT_EQ(time.gaps()[0].missing, 2);
}

TEST(TimeAxis, FilledAxesHaveEveryStep) {
  struct Case {
    std::vector<double> stamps;
    const char* units;
    std::vector<double> filled;
  };
  for (const Case& c :
       {Case{{0, 31, 120, 151}, "days since 1970-01-01", {0, 31, 59, 90, 120, 151}},
        Case{{0, 1, 2, 5, 6, 8}, "days since 1970-01-01", {0, 1, 2, 3, 4, 5, 6, 7, 8}},
        Case{{0, 5, 15, 20}, "minutes since 2012-03-01 00:00:00", {0, 5, 10, 15, 20}},
        Case{{2, 4, 6, 12}, "1", {2, 4, 6, 8, 10, 12}}, Case{{7}, "days since 1970-01-01", {7}}}) {
    std::vector<Index> source;
    const TimeAxis before = axis(c.stamps, c.units), after = before.filled(source);
    EXPECT_EQ(after.values(), c.filled) << c.units;
    EXPECT_TRUE(after.gaps().empty());
    EXPECT_EQ(after.step_text(), before.step_text());
    ASSERT_EQ(source.size(), c.filled.size());
    for (std::size_t t = 0; t < source.size(); ++t)
      if (source[t] >= 0)
        EXPECT_EQ(c.stamps[static_cast<std::size_t>(source[t])], c.filled[t]);
      else
        EXPECT_EQ(std::count(c.stamps.begin(), c.stamps.end(), c.filled[t]), 0);
  }
  std::vector<Index> source;
  EXPECT_HAS(user_message([&] {
               (void)axis({0, 1, 2, 3.4, 5}, "days since 1970-01-01").filled(source);
             }),
             "not regular");
}

TEST(TimeAxis, YearlyDailyHourlyMinutes) {
  EXPECT_EQ(axis({0, 365, 730, 1096}, "days since 1970-01-01").step_text(), "1 year");
  EXPECT_EQ(axis({0, 1, 2}, "days since 1970-01-01").step_text(), "1 day");
  EXPECT_EQ(axis({0, 7, 14, 21, 28, 35}, "days since 1970-01-01").step_text(), "7 days");
  EXPECT_EQ(axis({0, 6, 12}, "hours since 1970-01-01 00:00:00").step_text(), "6 hours");
  EXPECT_EQ(axis({0, 5, 10}, "minutes since 2012-03-01 00:00:00").step_text(), "5 minutes");
  EXPECT_EQ(axis({0, 30}, "seconds since 2012-03-01T00:00:00Z").step_text(), "30 seconds");
  EXPECT_EQ(axis({0, 0.25, 0.5}, "days since 1970-01-01 0:0:0.0").step_text(), "6 hours");
  EXPECT_EQ(axis({0, 5, 10}, "minutes since 2012-03-01 00:00:00").text(2), "2012-03-01T00:10");
}

TEST(TimeAxis, GapsOfADailyAxis) {
  const TimeAxis time = axis({0, 1, 2, 5, 6, 8}, "days since 1970-01-01");
  ASSERT_EQ(time.gaps().size(), 2u);
  EXPECT_EQ(time.gaps()[0].after, 2);
  EXPECT_EQ(time.gaps()[0].missing, 2);
  EXPECT_EQ(time.gaps()[1].missing, 1);
  EXPECT_TRUE(time.regular());
  EXPECT_EQ(time.find("1970-01-04"), std::nullopt) << "inside a gap";
  EXPECT_FALSE(axis({0, 2, 4, 5, 7}, "days since 1970-01-01").regular());
}

TEST(TimeAxis, PlainCounter) {
  for (const char* units : {"1", "", "step"}) {
    const TimeAxis time = axis({0, 1, 2, 4}, units, "");
    EXPECT_FALSE(time.dated());
    EXPECT_EQ(time.step_text(), "1 step");
    EXPECT_EQ(time.gaps().size(), 1u);
    EXPECT_EQ(time.find("2"), 2);
    EXPECT_EQ(time.find("3"), std::nullopt);
    EXPECT_EQ(time.after(3, 2).values(), (std::vector<double>{5, 6}));
    EXPECT_EQ(time.text(3), "4");
    EXPECT_EQ(time.steps_before("3"), 3);
  }
}

TEST(TimeAxis, FindsDates) {
  const TimeAxis monthly = TimeAxis::monthly(24, "1986-01");
  EXPECT_EQ(monthly.find("1986-08"), 7);
  EXPECT_EQ(monthly.find("1986-08-15"), 7);
  EXPECT_EQ(monthly.find("1987"), 12);
  EXPECT_EQ(monthly.find("1985-12"), std::nullopt);
  EXPECT_EQ(monthly.find("1988-01"), std::nullopt);
  EXPECT_EQ(monthly.find("august"), std::nullopt);
  EXPECT_EQ(monthly.find("1986-02-30"), std::nullopt) << "no such day";
  const TimeAxis weekly = TimeAxis::regular(5, "days since 2005-01-03", 0, 7);
  EXPECT_EQ(weekly.find("2005-01-12"), 1);
  EXPECT_EQ(weekly.find("2005-02-06"), 4) << "the last week has seven days too";
  EXPECT_EQ(weekly.find("2005-02-07"), std::nullopt);
  const TimeAxis minutes = TimeAxis::regular(2016, "minutes since 2012-03-01 00:00:00", 0, 5);
  EXPECT_EQ(minutes.find("2012-03-01T06:30"), 78);
  EXPECT_EQ(minutes.find("2012-03-01 06:32"), 78);
  EXPECT_EQ(minutes.find("2012-03-02"), 288);
  EXPECT_EQ(minutes.find("2012-02-29"), std::nullopt);
}

TEST(TimeAxis, StepsBefore) {
  const TimeAxis monthly = TimeAxis::monthly(24, "1986-01");
  EXPECT_EQ(monthly.steps_before("1986-01"), 0);
  EXPECT_EQ(monthly.steps_before("1986-08"), 7);
  EXPECT_EQ(monthly.steps_before("1986-08-02"), 8);
  EXPECT_EQ(monthly.steps_before("2100-01"), 24);
  EXPECT_HAS(user_message([&] { (void)monthly.steps_before("soon"); }), "soon is not a date");
  EXPECT_HAS(user_message([&] { (void)monthly.step_of("1999-01"); }), "runs from 1986-01 to 1987-12");
}

TEST(TimeAxis, StandardCalendarReferencesBefore1582AreJulian) {
  // 1800-01-01 is day 657071 after 0001-01-01 in the Gregorian calendar, and day 657073 in the mixed one.
  EXPECT_EQ(axis({657073}, "days since 1-1-1 00:00:00").text(0), "1800-01-01");
  EXPECT_EQ(axis({657071}, "days since 0001-01-01", "proleptic_gregorian").text(0), "1800-01-01");
}

TEST(TimeAxis, OffsetsFromUtc) {
  for (const char* units : {"hours since 2012-03-01 00:00:00 +01:00", "hours since 2012-03-01T00:00+0100",
                            "hours since 2012-03-01 00:00 1:00", "hours since 2012-03-01 0:0:0.0 +1"})
    EXPECT_EQ(axis({1, 2}, units).text(0), "2012-03-01T00:00") << units;
  EXPECT_EQ(axis({0, 1}, "hours since 2012-03-01 00:00:00 -5:30").text(0), "2012-03-01T05:30");
  EXPECT_EQ(axis({0, 1}, "hours since 1992-10-08 15:15:42.5 -6:00").text(1), "1992-10-08T22:15:42")
      << "of CF-1.8";
  EXPECT_HAS(user_message([] { axis({0}, "hours since 2012-03-01 00:00 +99:00"); }), "is not a date");
  EXPECT_EQ(axis({0, 24}, "hours since 2012-03-01 +00:00").text(0), "2012-03-01");
  EXPECT_HAS(user_message([] { axis({0}, "hours since 2012-03-01 1:"); }), "is not a date");
  for (const char* zone : {"EST", "CET", "Europe/Berlin", "PM"})
    EXPECT_HAS(user_message([&] { axis({0}, fmt::format("hours since 2012-03-01 12:00 {}", zone)); }),
               fmt::format("end with \"{}\". Write hours from 0 to 23, and an offset from UTC", zone));
}

TEST(TimeAxis, StampsOfAnUnsteadyClockHaveTheStepThatTheyMean) {
  std::vector<double> seconds;
  for (int t = 0; t < 200; ++t)
    seconds.push_back(300.0 * (t < 100 ? t : t + 3) + (t * t * 17 + t * 5) % 41 - 20);
  const TimeAxis time = axis(seconds, "seconds since 2012-03-01 00:00:00");
  EXPECT_EQ(time.step_text(), "5 minutes");
  EXPECT_FALSE(time.regular());
  ASSERT_EQ(time.gaps().size(), 0U) << "an irregular axis counts none within its noise";
  EXPECT_EQ(time.span_text(3), "15 min");
  EXPECT_TRUE(time.spans(0, 12));
  EXPECT_FALSE(time.spans(95, 12)) << "three steps are missing";
}

TEST(TimeAxis, ClocksThatMissMostStepsKeepTheirStep) {
  std::vector<double> hours;
  for (int t = 0; t < 400; ++t)
    if ((t * t * 31 + t * 7) % 97 < 40) hours.push_back(t);
  const TimeAxis time = axis(hours, "hours since 2012-03-01 00:00:00");
  EXPECT_EQ(time.step_text(), "1 hour");
  EXPECT_TRUE(time.regular());
  EXPECT_GT(time.gaps().size(), 40U);
}

TEST(TimeAxis, Refusals) {
  const auto refusal = [](std::vector<double> values, const char* units, const char* calendar = "standard") {
    return user_message([&] { axis(values, units, calendar); });
  };
  EXPECT_HAS(refusal({0, 1, 1}, "days since 1970-01-01"),
             "f.nc: variable time: time does not ascend: step 2");
  EXPECT_HAS(user_message([] {
               (void)TimeAxis::parse({0, 2, 1}, "days since 1970-01-01", "", "f.nc: variable valid_time");
             }),
             "Sort the steps: ds.sortby(\"valid_time\")");
  EXPECT_HAS(refusal({0, 2, 1}, "1"), "does not ascend: step 2 has 1, but the step before has 2");
  EXPECT_HAS(refusal({0, 55, 5}, "minutes since 2012-11-04 01:00"),
             "step 2 has 5 (2012-11-04T01:05), but the step before has 55 (2012-11-04T01:55). If the times "
             "are local");
  EXPECT_HAS(refusal({0, std::numeric_limits<double>::quiet_NaN()}, "1"), "step 1 has no usable time");
  EXPECT_HAS(refusal({0, 9.97e36}, "days since 1970-01-01"), "step 1 has no usable time");
  EXPECT_HAS(refusal({0}, "months since 1970-01-01"),
             "time unit \"months\" has no fixed length. Write dates");
  EXPECT_HAS(refusal({0}, "degree"), "not units of a time axis");
  EXPECT_HAS(refusal({0}, "days since yesterday"), "yesterday");
  EXPECT_HAS(refusal({0}, "days since 1970-13-01"), "1970-13-01");
  EXPECT_HAS(refusal({0}, "months since 1970-01-01", "noleap"),
             "in which this unit has a fixed length (360_day)");
  EXPECT_HAS(refusal({0}, "days since 1970-01-01", "lunar"),
             "calendar \"lunar\" is unknown. Set the attribute calendar of the time variable to standard,");
  EXPECT_HAS(refusal({0}, "days since 1970-02-30", "365_day"), "1970-02-30");
}

TEST(TimeAxis, CalendarsOfClimateModels) {
  // A century of 365-day years: daily, and monthly at mid-month.
  const TimeAxis daily = axis({0, 59, 60, 36500}, "days since 2000-01-01", "365_day");
  EXPECT_EQ(daily.text(1), "2000-03-01") << "2000 has no 29 February";
  EXPECT_EQ(daily.text(3), "2100-01-01");
  EXPECT_EQ(daily.calendar(), "365_day") << "as the file names it, for what is written";
  std::vector<double> middles;
  for (const double start : {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334})
    middles.push_back(start + 15);
  const TimeAxis monthly = axis(middles, "days since 1850-01-01", "noleap");
  EXPECT_EQ(monthly.step_text(), "1 month");
  EXPECT_EQ(monthly.after(11, 3).text(2), "1851-03-16");
  EXPECT_EQ(monthly.after(11, 3).values()[2], 365 + 59 + 15);
  EXPECT_EQ(monthly.steps_before("1850-06-30"), 6);

  const TimeAxis thirty = axis({0, 30, 60, 90}, "days since 1960-01-30", "360_day");
  EXPECT_EQ(thirty.step_text(), "1 month");
  EXPECT_EQ(thirty.text(1), "1960-02-30");
  EXPECT_EQ(thirty.find("1960-02-30"), 1);
  EXPECT_EQ(thirty.month(3), 4);
  EXPECT_EQ(thirty.after(3, 1).values()[0], 120);
  EXPECT_EQ(axis({0, 10, 20}, "days since 1960-01-01", "360_day").step_text(), "10 days");

  const TimeAxis months = axis({-0.5, 0.5, 1.5}, "months since 1960-01-01", "360");
  EXPECT_EQ(months.step_text(), "1 month");
  EXPECT_EQ(months.text(0), "1959-12-16");
  EXPECT_EQ(months.unit(), "months");
  EXPECT_EQ(months.calendar(), "360_day") << "CF's name";
  EXPECT_EQ(months.after(2, 1).values()[0], 2.5);

  EXPECT_EQ(axis({0, 60}, "days since 1900-01-01", "julian").text(1), "1900-03");
  EXPECT_EQ(axis({0, 60}, "days since 1901-01-01", "all_leap").text(1), "1901-03");
}

TEST(TimeAxis, StepsOfMillionsOfYearsEndBeforeTheNumbersDo) {
  const TimeAxis far = axis({-4e9, 0, 4e9}, "days since 1970-01-01");
  EXPECT_EQ(far.after(2, 1).size(), 1);
  EXPECT_HAS(user_message([&] { (void)far.after(2, 40); }), "lie beyond the times that can be represented");
}

TEST(TimeAxis, AStepTooSmallForItsDistancesIsNotRegular) {
  const TimeAxis tiny = axis({0, 1e-300, 2e-300, 8e15}, "1");
  EXPECT_FALSE(tiny.regular());
  EXPECT_TRUE(tiny.gaps().empty());
}

TEST(TimeAxis, SpansAsPeopleNameThem) {
  const TimeAxis five = TimeAxis::regular(30, "minutes since 2012-03-01", 0, 5);
  EXPECT_EQ(five.span_text(1), "5 min");
  EXPECT_EQ(five.span_text(12), "1 h");
  EXPECT_EQ(five.span_text(13), "65 min");
  EXPECT_EQ(five.span_text(576), "2 days");
  EXPECT_EQ(five.span_seconds(3), 900);
  EXPECT_EQ(TimeAxis::regular(3, "seconds since 2012-03-01", 0, 1.5).span_text(3), "4.5 s");
  const TimeAxis months = TimeAxis::monthly(30, "1999-01");
  EXPECT_EQ(months.span_text(1), "1 month");
  EXPECT_EQ(months.span_text(23), "23 months");
  EXPECT_EQ(months.span_text(24), "2 years");
  EXPECT_FALSE(months.span_seconds(1));
  EXPECT_EQ(TimeAxis::counter(5).span_text(2), "");
  EXPECT_FALSE(TimeAxis::counter(5).span_seconds(2));
}

TEST(TimeAxis, StepsInATime) {
  const TimeAxis five = TimeAxis::regular(30, "minutes since 2012-03-01", 0, 5);
  EXPECT_EQ(five.steps_in("15 min"), 3);
  EXPECT_EQ(five.steps_in("30min"), 6);
  EXPECT_EQ(five.steps_in("1 h"), 12);
  EXPECT_EQ(five.steps_in("1.5 hours"), 18);
  EXPECT_EQ(five.steps_in("1 week"), 2016);
  EXPECT_EQ(TimeAxis::monthly(30, "1999-01").steps_in("1 year"), 12);
  for (const char* text : {"", "min", "15", "15 mins", "h 1", "15 min "})
    EXPECT_NE(user_message([&] { (void)five.steps_in(text); }).find("a number and a unit"), std::string::npos)
        << text;
  for (const char* text : {"7 min", "nan min", "0 min", "-5 min", "1e300 min"})
    EXPECT_NE(user_message([&] { (void)five.steps_in(text); }).find("one step every 5 minutes"),
              std::string::npos)
        << text;
  EXPECT_NE(user_message([&] { (void)five.steps_in("1 month"); }).find("whose step is 5 minutes"),
            std::string::npos);
  EXPECT_NE(user_message([&] { (void)TimeAxis::counter(9).steps_in("1 h"); }).find("whose step is 1 step"),
            std::string::npos);
}

TEST(TimeAxis, SpansEndAtGaps) {
  const TimeAxis night = axis({0, 10, 20, 60, 70}, "minutes since 2019-01-01");
  EXPECT_TRUE(night.spans(0, 2));
  EXPECT_FALSE(night.spans(0, 3));
  EXPECT_FALSE(night.spans(2, 1));
  EXPECT_TRUE(night.spans(3, 1));
  EXPECT_TRUE(night.spans(3, 7)) << "behind the end nothing is known to be missing";
  const TimeAxis monthly = axis({0, 31, 90}, "days since 1999-01-01");
  EXPECT_TRUE(monthly.spans(0, 1));
  EXPECT_FALSE(monthly.spans(1, 1));
}

TEST(TimeAxis, OneOrNoStep) {
  const TimeAxis one = axis({5}, "days since 1970-01-01");
  EXPECT_EQ(one.step_text(), "none");
  EXPECT_HAS(user_message([&] { (void)one.after(0, 1); }), "only one step");
  EXPECT_EQ(axis({}, "1").size(), 0);
  // A slice of one step keeps the step length of its axis.
  EXPECT_EQ(TimeAxis::monthly(24, "1986-01").slice(3, 1).after(0, 1).text(0), "1986-05");
}

}  // namespace
}  // namespace rossby
