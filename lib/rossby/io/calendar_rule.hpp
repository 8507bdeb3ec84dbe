#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rossby/io/calendar.hpp"

namespace rossby::detail {

/// Stamps that follow the calendar instead of a clock: the same days of every month (dekads, half-months),
/// every k days from 1 January (8-day composites, pentads), or the same days of every week (business days).
/// Each such day has an ordinal number; neighbours differ by 1.
class CalendarRule {
 public:
  /// Finds the rule that stamps (milliseconds, ascending) follow with hardly any gap. None if there is no
  /// such rule, or too few stamps to tell.
  static std::optional<CalendarRule> find(std::span<const std::int64_t> stamps, Calendar calendar);

  /// None if the rule has no such stamp.
  [[nodiscard]] std::optional<std::int64_t> ordinal(std::int64_t stamp) const;
  [[nodiscard]] std::int64_t stamp(std::int64_t ordinal) const;
  /// Returns a number of steps as text: "1 dekad", "3 business days".
  [[nodiscard]] std::string text(std::int64_t steps) const;

 private:
  enum class Kind { days_of_month, days_from_january, days_from_january_without_leap, days_of_week };

  [[nodiscard]] bool fits(std::span<const std::int64_t> stamps) const;
  [[nodiscard]] std::int64_t days_of_year() const;
  static std::optional<CalendarRule> find_month_days(std::span<const std::int64_t> stamps, Calendar calendar);
  static std::optional<CalendarRule> find_week_days(std::span<const std::int64_t> stamps, Calendar calendar);

  Kind kind_ = Kind::days_of_month;
  Calendar calendar_ = Calendar::standard;
  std::vector<int> days_;    // of a month, last_day: its last; or of a week, Monday 0
  std::int64_t every_ = 0;   // days from 1 January
  std::int64_t in_day_ = 0;  // milliseconds
};

}  // namespace rossby::detail
