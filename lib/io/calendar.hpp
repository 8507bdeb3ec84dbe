#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rossby::detail {

inline constexpr std::int64_t day_milliseconds = 86'400'000;

/// A moment in the proleptic Gregorian calendar.
struct CivilTime {
  std::int64_t year = 1970;
  int month = 1;
  int day = 1;
  std::int64_t in_day = 0;  // milliseconds
};

/// Days since 1970-01-01. H. Hinnant, "chrono-Compatible Low-Level Date Algorithms": days_from_civil.
std::int64_t days_from_civil(std::int64_t year, int month, int day);
/// The same for a date of the Julian calendar.
std::int64_t days_from_julian(std::int64_t year, int month, int day);
int days_in_month(std::int64_t year, int month);
CivilTime civil(std::int64_t milliseconds);
/// Months since year 0.
std::int64_t month_index(const CivilTime& time);
std::int64_t month_start(std::int64_t month_index);

/// A date with as many fields as its text has: 1 year … 6 second.
struct ParsedDate {
  std::int64_t year = 0;
  int month = 1, day = 1, hour = 0, minute = 0;
  std::int64_t milliseconds = 0;  // of the minute
  int fields = 0;
};

/// "1986[-8[-15[T|blank 6[:30[:15[.5]]]]]]", one or two digits a field, an optional Z, UTC or zero offset
/// behind it.
std::optional<ParsedDate> parse_date(std::string_view text);

}  // namespace rossby::detail
