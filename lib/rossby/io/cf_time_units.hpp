#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rossby/io/calendar.hpp"

namespace rossby::detail {

/// "UNIT since DATE": the unit in milliseconds, and the date.
struct TimeUnits {
  double unit = 1;
  ParsedDate reference;
  std::int64_t shift_days = 0;  // added to the date
};

/// The date may be the first Julian day in any usual form: -4712-01-01, -4713-01-01 or -4713-11-24. Other
/// years before 0 are refused. Units have exact lengths: nanoseconds to weeks, common_years (365 days), and
/// months or years in calendars in which they are all alike. Throws UserError beginning with `origin`, with
/// what to do, if the text is anything else.
[[nodiscard]] TimeUnits parse_time_units(const std::string& units, Calendar calendar,
                                         const std::string& origin);

/// True if these units are those of plain numbers: none, "1", "step", ….
[[nodiscard]] bool is_counter_unit(const std::string& units);

/// Throws UserError if times in units of `unit` milliseconds are evenly spaced, but by a time that rounding
/// to milliseconds distorts.
void require_whole_milliseconds(const std::vector<double>& values, double unit, const std::string& origin);

}  // namespace rossby::detail
