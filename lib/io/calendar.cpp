#include "rossby/io/calendar.hpp"

#include <charconv>
#include <cmath>

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

bool take_day(std::string_view& text, ParsedDate& date) {
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
  if (!day || *day < 1 || *day > days_in_month(date.year, date.month)) return false;
  date.day = *day;
  date.fields = 3;
  return true;
}

}  // namespace

std::int64_t days_from_civil(std::int64_t year, int month, int day) {
  const std::int64_t y = year - (month <= 2 ? 1 : 0);
  const std::int64_t era = floor_div(y, 400);
  const std::int64_t year_of_era = y - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

std::int64_t days_from_julian(std::int64_t year, int month, int day) {
  const std::int64_t y = year - (month <= 2 ? 1 : 0);
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return y * 365 + floor_div(y, 4) + day_of_year - 719470;
}

int days_in_month(std::int64_t year, int month) {
  if (month == 2) return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

CivilTime civil(std::int64_t milliseconds) {
  const std::int64_t days = floor_div(milliseconds, day_milliseconds);
  const std::int64_t z = days + 719468;
  const std::int64_t era = floor_div(z, 146097);
  const std::int64_t day_of_era = z - era * 146097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted = (5 * day_of_year + 2) / 153;  // months since March
  CivilTime time;
  time.day = static_cast<int>(day_of_year - (153 * shifted + 2) / 5 + 1);
  time.month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  time.year = year_of_era + era * 400 + (time.month <= 2 ? 1 : 0);
  time.in_day = milliseconds - days * day_milliseconds;
  return time;
}

std::int64_t month_index(const CivilTime& time) {
  return time.year * 12 + time.month - 1;
}

std::int64_t month_start(std::int64_t index) {
  const std::int64_t year = floor_div(index, 12);
  return days_from_civil(year, static_cast<int>(index - year * 12) + 1, 1) * day_milliseconds;
}

std::optional<ParsedDate> parse_date(std::string_view text) {
  ParsedDate date;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  for (const std::string_view zone : {"Z", "UTC", "GMT", "+00:00", "+0:00", "+00"})
    if (text.ends_with(zone)) {
      text.remove_suffix(zone.size());
      while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
      break;
    }
  if (!take_day(text, date)) return std::nullopt;
  if (text.empty()) return date;
  if (date.fields != 3 || (!take(text, 'T') && !take(text, ' '))) return std::nullopt;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (!take_clock(text, date)) return std::nullopt;
  if (take(text, ' ') && (text == "0:00" || text == "00:00" || text == "-0:00")) text = "";  // udunits zone
  return text.empty() ? std::optional(date) : std::nullopt;
}

}  // namespace rossby::detail
