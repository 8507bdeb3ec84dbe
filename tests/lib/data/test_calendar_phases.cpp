#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/data/calendar_phases.hpp"

namespace rossby {
namespace {

using enum CalendarTable;

TEST(CalendarPhases, OfFiveMinutesAreThoseOfTheDayAndOfTheWeek) {
  // Friday evening: forecasts reach into Saturday.
  const TimeAxis axis = TimeAxis::regular(4, "minutes since 2012-03-02 23:40", 0, 5);
  EXPECT_EQ(CalendarPhases::obstacle(axis, time_of_day), "");
  EXPECT_EQ(CalendarPhases::obstacle(axis, day_of_week), "");
  EXPECT_NE(CalendarPhases::obstacle(axis, month), "");
  const CalendarPhases day = CalendarPhases::of(axis, time_of_day, 2);
  EXPECT_EQ(day.count, 288);
  EXPECT_EQ(day.of_step, (std::vector<Index>{284, 285, 286, 287, 0, 1}));
  const CalendarPhases week = CalendarPhases::of(axis, day_of_week, 2);
  EXPECT_EQ(week.count, 7);
  EXPECT_EQ(week.of_step, (std::vector<Index>{4, 4, 4, 4, 5, 5}));
}

TEST(CalendarPhases, OfDaysAreThoseOfTheWeekAndOfTheYear) {
  const TimeAxis axis = TimeAxis::regular(3, "days since 2011-12-30", 0, 1);
  EXPECT_NE(CalendarPhases::obstacle(axis, time_of_day), "");
  EXPECT_EQ(CalendarPhases::of(axis, day_of_week, 1).of_step, (std::vector<Index>{4, 5, 6, 0}));
  EXPECT_EQ(CalendarPhases::of(axis, month, 1).of_step, (std::vector<Index>{11, 11, 0, 0}));
  EXPECT_EQ(CalendarPhases::of(axis, month, 0).count, 12);
}

TEST(CalendarPhases, OfWeeksAndMonthsAreThoseOfTheYear) {
  const TimeAxis weeks = TimeAxis::regular(3, "days since 2012-01-23", 0, 7);
  EXPECT_NE(CalendarPhases::obstacle(weeks, day_of_week), "");
  EXPECT_EQ(CalendarPhases::of(weeks, month, 0).of_step, (std::vector<Index>{0, 0, 1}));
  const TimeAxis months = TimeAxis::monthly(3, "1970-11");
  EXPECT_NE(CalendarPhases::obstacle(months, time_of_day), "");
  EXPECT_NE(CalendarPhases::obstacle(months, day_of_week), "");
  EXPECT_EQ(CalendarPhases::of(months, month, 2).of_step, (std::vector<Index>{10, 11, 0, 1, 2}));
}

TEST(CalendarPhases, NeedDatesAndAStep) {
  for (const CalendarTable table : all_calendar_tables) {
    EXPECT_NE(CalendarPhases::obstacle(TimeAxis::counter(5), table), "");
    EXPECT_NE(CalendarPhases::obstacle(TimeAxis::regular(1, "hours since 2000-01-01", 0, 1), table), "");
  }
  // Seven hours do not divide a day, so all days of the week are the same.
  const TimeAxis odd = TimeAxis::regular(5, "hours since 2000-01-01", 0, 7);
  EXPECT_NE(CalendarPhases::obstacle(odd, time_of_day), "");
  EXPECT_EQ(CalendarPhases::obstacle(odd, day_of_week), "");
  const TimeAxis years = TimeAxis::regular(5, "days since 2000-01-01", 0, 366);
  EXPECT_NE(CalendarPhases::obstacle(years, month), "");
}

}  // namespace
}  // namespace rossby
