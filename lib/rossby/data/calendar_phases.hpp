#pragma once

#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby {

/// Steps per day, if a regular axis has a step that divides a day: 1 for days, 288 for 5 minutes.
[[nodiscard]] std::optional<Index> steps_of_day(const TimeAxis& axis);
/// Index of the part of the day, among `a_day` equal parts, whose beginning is nearest to a stamp.
[[nodiscard]] Index part_of_day(const TimeAxis& axis, Index step, Index a_day);

/// Tables of learned vectors indexed by the calendar.
enum class CalendarTable { time_of_day, day_of_week, month };
inline constexpr CalendarTable all_calendar_tables[] = {CalendarTable::time_of_day,
                                                        CalendarTable::day_of_week, CalendarTable::month};
/// "time_of_day", "day_of_week" and "month".
[[nodiscard]] std::string_view name_of(CalendarTable table);

/// The row of one such table for every step of a series.
struct CalendarPhases {
  Index count = 0;             // rows of the table; 0: no table
  std::vector<Index> of_step;  // in [0, count); empty without a table

  /// Why an axis has no such table; empty: it has one. Time of day needs a regular step shorter than a day
  /// that divides it. Day of the week needs a step of at most a day, month of the year one from a day to half
  /// a year.
  [[nodiscard]] static std::string_view obstacle(const TimeAxis& axis, CalendarTable table);
  /// The rows of all steps and of `ahead` steps after the last. There must be no obstacle. Time of day has
  /// one row per step of the day, from midnight; day of the week 7, from Monday; month 12, from January.
  [[nodiscard]] static CalendarPhases of(const TimeAxis& axis, CalendarTable table, Index ahead);
};

/// In the order of all_calendar_tables.
using CalendarTables = std::array<CalendarPhases, std::size(all_calendar_tables)>;

}  // namespace rossby
