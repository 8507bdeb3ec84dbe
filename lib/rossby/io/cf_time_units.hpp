#pragma once

#include <cstdint>
#include <string>

#include "rossby/io/calendar.hpp"

namespace rossby::detail {

/// "UNIT since DATE": the unit in milliseconds, and the date.
struct TimeUnits {
  double unit = 1;
  ParsedDate reference;
  std::int64_t shift_days = 0;  // added to the date
};

/// The date may be the first Julian day as people write it: -4712-01-01, -4713-01-01 or -4713-11-24; other
/// years before 0 are refused. Units of exact length: nanoseconds to weeks and common_years (365 days); in
/// calendars whose months or years are all alike, these, too. Throws UserError beginning with `origin` where
/// the text is another one, with what to do.
[[nodiscard]] TimeUnits parse_time_units(const std::string& units, Calendar calendar,
                                         const std::string& origin);

/// Whether these units are those of plain numbers: none, "1", "step", ….
[[nodiscard]] bool is_counter_unit(const std::string& units);

}  // namespace rossby::detail
