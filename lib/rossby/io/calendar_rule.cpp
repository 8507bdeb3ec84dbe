#include "rossby/io/calendar_rule.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace rossby::detail {
namespace {

constexpr int last_day = 99;
constexpr std::size_t most_days = 6;  // of a month or a week

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

std::int64_t day_number(std::int64_t stamp) {
  return floor_div(stamp, day_milliseconds);
}

bool ends_month(const CivilTime& time, Calendar calendar) {
  return time.day == days_in_month(time.year, time.month, calendar);
}

/// Days of the year before a date, from 0; a year without leap days has 365.
std::int64_t day_of_year(const CivilTime& time, Calendar calendar) {
  return days_from_civil(time.year, time.month, time.day, calendar) -
         days_from_civil(time.year, 1, 1, calendar);
}

}  // namespace

std::int64_t CalendarRule::days_of_year() const {
  return (days_in_year(calendar_) - 1) / every_ + 1;
}

std::optional<std::int64_t> CalendarRule::ordinal(std::int64_t stamp) const {
  const CivilTime time = civil(stamp, calendar_);
  if (time.in_day != in_day_) return std::nullopt;
  switch (kind_) {
    case Kind::days_of_month: {
      const auto count = static_cast<std::int64_t>(days_.size());
      for (std::size_t k = 0; k < days_.size(); ++k)
        if (days_[k] == time.day || (days_[k] == last_day && ends_month(time, calendar_)))
          return month_index(time) * count + static_cast<std::int64_t>(k);
      return std::nullopt;
    }
    case Kind::days_from_january: {
      const std::int64_t day = day_of_year(time, calendar_);
      if (day % every_ != 0) return std::nullopt;
      return time.year * days_of_year() + day / every_;
    }
    case Kind::days_from_january_without_leap: {
      if (time.month == 2 && time.day == 29) return std::nullopt;
      const std::int64_t day = day_of_year({1970, time.month, time.day, 0}, Calendar::no_leap);
      if (day % every_ != 0) return std::nullopt;
      return time.year * days_of_year() + day / every_;
    }
    case Kind::days_of_week: {
      const std::int64_t days = day_number(stamp) + 3;  // 1970-01-01 was a Thursday
      const std::int64_t week = floor_div(days, 7);
      const auto day = std::find(days_.begin(), days_.end(), static_cast<int>(days - 7 * week));
      if (day == days_.end()) return std::nullopt;
      return week * static_cast<std::int64_t>(days_.size()) + (day - days_.begin());
    }
  }
  return std::nullopt;
}

std::int64_t CalendarRule::stamp(std::int64_t ordinal) const {
  const std::int64_t count = kind_ == Kind::days_of_month || kind_ == Kind::days_of_week
                                 ? static_cast<std::int64_t>(days_.size())
                                 : days_of_year();
  const std::int64_t whole = floor_div(ordinal, count), part = ordinal - whole * count;
  switch (kind_) {
    case Kind::days_of_month: {
      const std::int64_t start = month_start(whole, calendar_), next = month_start(whole + 1, calendar_);
      const std::int64_t days = (next - start) / day_milliseconds;
      const std::int64_t day = std::min<std::int64_t>(days_[static_cast<std::size_t>(part)], days);
      return start + (day - 1) * day_milliseconds + in_day_;
    }
    case Kind::days_from_january:
      return (days_from_civil(whole, 1, 1, calendar_) + part * every_) * day_milliseconds + in_day_;
    case Kind::days_from_january_without_leap: {
      const CivilTime date = civil(part * every_ * day_milliseconds, Calendar::no_leap);  // of 1970
      return days_from_civil(whole, date.month, date.day, calendar_) * day_milliseconds + in_day_;
    }
    case Kind::days_of_week:
      return (7 * whole + days_[static_cast<std::size_t>(part)] - 3) * day_milliseconds + in_day_;
  }
  return 0;
}

std::string CalendarRule::text(std::int64_t steps) const {
  const auto counted = [&](std::string_view one, std::string_view many) {
    return fmt::format("{} {}", steps, steps == 1 ? one : many);
  };
  switch (kind_) {
    case Kind::days_of_month:
      if (days_.size() == 3) return counted("dekad", "dekads");
      if (days_.size() == 2) return counted("half-month", "half-months");
      return counted("date", "dates") + fmt::format(" of {} a month", days_.size());
    case Kind::days_from_january:
    case Kind::days_from_january_without_leap:
      return counted("period", "periods") + fmt::format(" of {} days from 1 January", every_);
    case Kind::days_of_week:
      return days_ == std::vector<int>{0, 1, 2, 3, 4}
                 ? counted("business day", "business days")
                 : counted("date", "dates") + fmt::format(" of {} a week", days_.size());
  }
  return "";
}

/// All stamps have an ordinal, and nine of ten neighbours are one step apart.
bool CalendarRule::fits(std::span<const std::int64_t> stamps) const {
  std::int64_t before = 0;
  std::size_t neighbours = 0;
  for (std::size_t t = 0; t < stamps.size(); ++t) {
    const auto number = ordinal(stamps[t]);
    if (!number || stamp(*number) != stamps[t] || (t > 0 && *number <= before)) return false;
    if (t > 0 && *number == before + 1) ++neighbours;
    before = *number;
  }
  return 10 * neighbours >= 9 * (stamps.size() - 1);
}

std::optional<CalendarRule> CalendarRule::find_month_days(std::span<const std::int64_t> stamps,
                                                          Calendar calendar) {
  std::set<int> days;
  bool late = false, ends = true;  // days after the 27th are always the last day
  for (const std::int64_t stamp : stamps) {
    const CivilTime time = civil(stamp, calendar);
    days.insert(time.day);
    late = late || time.day > 27;
    ends = ends && (time.day <= 27 || ends_month(time, calendar));
  }
  if (late && ends) {
    std::erase_if(days, [](int day) { return day > 27; });
    days.insert(last_day);
  }
  if (days.size() < 2 || days.size() > most_days || stamps.size() < 2 * days.size() + 1) return std::nullopt;
  CalendarRule rule;
  rule.calendar_ = calendar;
  rule.days_.assign(days.begin(), days.end());
  rule.in_day_ = civil(stamps.front(), calendar).in_day;
  return rule.fits(stamps) ? std::optional(rule) : std::nullopt;
}

std::optional<CalendarRule> CalendarRule::find_week_days(std::span<const std::int64_t> stamps,
                                                         Calendar calendar) {
  std::set<int> days;
  for (const std::int64_t stamp : stamps) {
    const std::int64_t number = day_number(stamp) + 3;
    days.insert(static_cast<int>(number - 7 * floor_div(number, 7)));
  }
  // Five days of daily stamps are no rule, but two weeks of them without weekends are.
  if (days.size() < 2 || days.size() > most_days || stamps.size() < 2 * days.size() + 1) return std::nullopt;
  CalendarRule rule;
  rule.kind_ = Kind::days_of_week;
  rule.calendar_ = calendar;
  rule.days_.assign(days.begin(), days.end());
  rule.in_day_ = civil(stamps.front(), calendar).in_day;
  return rule.fits(stamps) ? std::optional(rule) : std::nullopt;
}

std::optional<CalendarRule> CalendarRule::find(std::span<const std::int64_t> stamps, Calendar calendar) {
  if (stamps.size() < 5) return std::nullopt;
  const std::int64_t in_day = civil(stamps.front(), calendar).in_day;
  for (const std::int64_t stamp : stamps)
    if (civil(stamp, calendar).in_day != in_day) return std::nullopt;
  if (auto rule = find_month_days(stamps, calendar)) return rule;
  CalendarRule rule;
  rule.calendar_ = calendar;
  rule.in_day_ = in_day;
  const std::int64_t first = stamps[1] - stamps[0], second = stamps[2] - stamps[1];
  for (const std::int64_t distance : {first, second}) {
    rule.every_ = distance / day_milliseconds;
    if (distance % day_milliseconds != 0 || rule.every_ < 2 || rule.every_ > 60) continue;
    bool restarts = false;  // otherwise these stamps follow a clock
    for (std::size_t t = 1; t < stamps.size(); ++t)
      restarts = restarts || (stamps[t] - stamps[t - 1]) % distance != 0;
    if (!restarts) continue;
    const bool leaps =
        calendar != Calendar::no_leap && calendar != Calendar::all_leap && calendar != Calendar::days_360;
    // A rule must not contain a 366th day, or leap years would have one more stamp.
    rule.kind_ = Kind::days_from_january;
    if ((!leaps || 365 % rule.every_ != 0) && rule.fits(stamps)) return rule;
    rule.kind_ = Kind::days_from_january_without_leap;
    if (leaps && rule.fits(stamps)) return rule;
  }
  return find_week_days(stamps, calendar);
}

}  // namespace rossby::detail
