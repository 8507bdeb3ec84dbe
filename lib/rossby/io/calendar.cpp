#include "rossby/io/calendar.hpp"

#include <charconv>
#include <cmath>
#include <tuple>

namespace rossby::detail {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// Takes an unsigned number of at most `digits` digits from the front.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  std::size_t length = 0;
  while (length < text.size() && length < digits && text[length] >= '0' && text[length] <= '9') ++length;
  if (length == 0) return std::nullopt;
  int value = 0;
  std::from_chars(text.data(), text.data() + length, value);
  text.remove_prefix(length);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

bool take_seconds(std::string_view& text, ParsedDate& date) {
  const auto second = take_number(text, 2);
  if (!second || *second > 59) return false;
  date.milliseconds = *second * 1000;
  if (!take(text, '.')) return true;
  double scale = 100, fraction = 0;
  bool any = false;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9';
       text.remove_prefix(1), scale /= 10, any = true)
    fraction += scale * (text.front() - '0');
  date.milliseconds += std::llround(fraction);
  return any || text.empty();  // udunits writes "0:0:0." too
}

bool take_clock(std::string_view& text, ParsedDate& date) {
  const auto hour = take_number(text, 2);
  if (!hour || *hour > 23) return false;
  date.hour = *hour;
  date.fields = 4;
  if (!take(text, ':')) return true;
  const auto minute = take_number(text, 2);
  if (!minute || *minute > 59) return false;
  date.minute = *minute;
  date.fields = 5;
  if (!take(text, ':')) return true;
  date.fields = 6;
  return take_seconds(text, date);
}

/// "+01:00", "-5:30", "+0100", "1:00", "+1"
bool take_zone(std::string_view& text, ParsedDate& date) {
  const bool west = take(text, '-');
  if (!west) (void)take(text, '+');
  const auto first = take_number(text, 4);
  if (!first) return false;
  int hours = *first, minutes = 0;
  if (take(text, ':')) {
    const auto second = take_number(text, 2);
    if (!second) return false;
    minutes = *second;
  } else if (hours >= 100) {
    minutes = hours % 100;
    hours /= 100;
  }
  if (hours > 14 || minutes > 59) return false;
  date.zone = (west ? -1 : 1) * (60 * hours + minutes);
  return true;
}

bool take_day(std::string_view& text, ParsedDate& date, Calendar calendar) {
  const auto year = take_number(text, 4);
  if (!year) return false;
  date.year = *year;
  date.fields = 1;
  if (!take(text, '-')) return true;
  const auto month = take_number(text, 2);
  if (!month || *month < 1 || *month > 12) return false;
  date.month = *month;
  date.fields = 2;
  if (!take(text, '-')) return true;
  const auto day = take_number(text, 2);
  if (!day || *day < 1 || *day > days_in_month(date.year, date.month, calendar)) return false;
  date.day = *day;
  date.fields = 3;
  return true;
}

/// Days from 1 March of year 0 to 1 March of a year. A leap day ends such a year, so a month's place in it
/// never depends on leap days.
std::int64_t days_before_march(std::int64_t year, Calendar calendar) {
  switch (calendar) {
    case Calendar::gregorian:
      return year * 365 + floor_div(year, 4) - floor_div(year, 100) + floor_div(year, 400);
    case Calendar::julian:
      return year * 365 + floor_div(year, 4);
    default:
      return year * days_in_year(calendar);
  }
}

/// The year, starting in March, that contains a day; days as above.
std::int64_t year_from_march(std::int64_t days, Calendar calendar) {
  switch (calendar) {
    case Calendar::gregorian: {
      const std::int64_t era = floor_div(days, 146097), day_of_era = days - era * 146097;
      return era * 400 + (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    }
    case Calendar::julian: {
      const std::int64_t era = floor_div(days, 1461), day_of_era = days - era * 1461;
      return era * 4 + (day_of_era - day_of_era / 1460) / 365;
    }
    default:
      return floor_div(days, days_in_year(calendar));
  }
}

/// 1970-01-01 in days as above.
std::int64_t epoch(Calendar calendar) {
  constexpr int march_to_january = 306;
  if (calendar == Calendar::days_360) return 1970 * 360;  // from 1 January of year 0: all months are alike
  if (calendar == Calendar::julian) return 719470;        // 1582-10-04 is the day before 1582-10-15
  return days_before_march(1969, calendar) + march_to_january;
}

/// The standard calendar consists of two calendars: this day decides which one applies.
constexpr std::int64_t first_gregorian_day = -141427;  // 1582-10-15, from 1970-01-01
Calendar calendar_of(std::int64_t year, int month, int day, Calendar calendar) {
  if (calendar != Calendar::standard) return calendar;
  const bool before = std::tuple(year, month, day) < std::tuple(1582, 10, 15);
  return before ? Calendar::julian : Calendar::gregorian;
}
Calendar calendar_of(std::int64_t day, Calendar calendar) {
  if (calendar != Calendar::standard) return calendar;
  return day < first_gregorian_day ? Calendar::julian : Calendar::gregorian;
}

}  // namespace

std::int64_t days_from_civil(std::int64_t year, int month, int day, Calendar asked) {
  const Calendar calendar = calendar_of(year, month, day, asked);
  if (calendar == Calendar::days_360) return year * 360 + (month - 1) * 30 + day - 1 - epoch(calendar);
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return days_before_march(year - (month <= 2 ? 1 : 0), calendar) + day_of_year - epoch(calendar);
}

int days_in_month(std::int64_t year, int month, Calendar asked) {
  const Calendar calendar = calendar_of(year, month, 1, asked);
  if (calendar == Calendar::days_360) return 30;
  if (month != 2) return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
  const bool fourth = year % 4 == 0;
  const bool leap = calendar == Calendar::gregorian ? (fourth && year % 100 != 0) || year % 400 == 0
                    : calendar == Calendar::julian  ? fourth
                                                    : calendar == Calendar::all_leap;
  return leap ? 29 : 28;
}

CivilTime civil(std::int64_t milliseconds, Calendar asked) {
  const std::int64_t days = floor_div(milliseconds, day_milliseconds);
  const Calendar calendar = calendar_of(days, asked);
  const std::int64_t z = days + epoch(calendar);
  CivilTime time;
  time.in_day = milliseconds - days * day_milliseconds;
  if (calendar == Calendar::days_360) {
    time.year = floor_div(z, 360);
    const auto day_of_year = static_cast<int>(z - time.year * 360);
    time.month = day_of_year / 30 + 1;
    time.day = day_of_year % 30 + 1;
    return time;
  }
  const std::int64_t year = year_from_march(z, calendar);
  const std::int64_t day_of_year = z - days_before_march(year, calendar);
  const std::int64_t shifted = (5 * day_of_year + 2) / 153;  // months since March
  time.day = static_cast<int>(day_of_year - (153 * shifted + 2) / 5 + 1);
  time.month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  time.year = year + (time.month <= 2 ? 1 : 0);
  return time;
}

std::int64_t month_index(const CivilTime& time) {
  return time.year * 12 + time.month - 1;
}

std::int64_t month_start(std::int64_t index, Calendar calendar) {
  const std::int64_t year = floor_div(index, 12);
  return days_from_civil(year, static_cast<int>(index - year * 12) + 1, 1, calendar) * day_milliseconds;
}

std::optional<ParsedDate> parse_date(std::string_view text, Calendar calendar) {
  ParsedDate date;
  const auto skip_blanks = [&] {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  };
  skip_blanks();
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  for (const std::string_view zone : {"Z", "UTC", "GMT"})
    if (text.ends_with(zone)) {
      text.remove_suffix(zone.size());
      while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
      break;
    }
  if (!take_day(text, date, calendar)) return std::nullopt;
  if (text.empty()) return date;
  if (date.fields != 3 || (!take(text, 'T') && !take(text, ' ') && !take(text, '_'))) return std::nullopt;
  skip_blanks();
  if (!text.empty() && (text.front() == '+' || text.front() == '-'))
    return take_zone(text, date) && text.empty() ? std::optional(date) : std::nullopt;
  if (!take_clock(text, date)) return std::nullopt;
  if (text.empty()) return date;
  skip_blanks();
  return take_zone(text, date) && text.empty() ? std::optional(date) : std::nullopt;
}

}  // namespace rossby::detail
