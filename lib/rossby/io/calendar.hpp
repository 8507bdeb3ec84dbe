#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rossby {

/// The days of a year (CF-1.8, chapter 4.4.1). `standard` is the Gregorian calendar from 1582-10-15 on, and
/// the Julian calendar before.
enum class Calendar : std::uint8_t { gregorian, standard, julian, no_leap, all_leap, days_360 };

inline constexpr std::int64_t day_milliseconds = 86'400'000;

}  // namespace rossby

namespace rossby::detail {

/// A date and time of day in some calendar.
struct CivilTime {
  std::int64_t year = 1970;
  int month = 1;
  int day = 1;
  std::int64_t in_day = 0;  // milliseconds
};

/// Days since the calendar's own 1970-01-01; Julian dates count from the Gregorian one. After H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms": days_from_civil.
std::int64_t days_from_civil(std::int64_t year, int month, int day, Calendar = Calendar::gregorian);
int days_in_month(std::int64_t year, int month, Calendar = Calendar::gregorian);
/// Days of the calendar's shortest year.
constexpr int days_in_year(Calendar calendar) {
  return calendar == Calendar::days_360 ? 360 : calendar == Calendar::all_leap ? 366 : 365;
}
CivilTime civil(std::int64_t milliseconds, Calendar = Calendar::gregorian);
/// Months since year 0.
std::int64_t month_index(const CivilTime& time);
std::int64_t month_start(std::int64_t month_index, Calendar = Calendar::gregorian);

/// A date with the fields that its text has: 1 year … 6 second.
struct ParsedDate {
  std::int64_t year = 0;
  int month = 1, day = 1, hour = 0, minute = 0;
  std::int64_t milliseconds = 0;  // of the minute
  int zone = 0;                   // minutes ahead of UTC
  int fields = 0;
};

/// Parses "1986[-8[-15[T|blank|_ 6[:30[:15[.5]]]]]]", one or two digits per field. An optional Z, UTC or GMT
/// may follow, or, after a time of day, an offset from UTC ("+01:00", "-5:30", "+0100", " 1:00").
std::optional<ParsedDate> parse_date(std::string_view text, Calendar = Calendar::gregorian);

}  // namespace rossby::detail
