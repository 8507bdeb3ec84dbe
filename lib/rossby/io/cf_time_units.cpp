// Units of time after CF-1.8, chapter 4.4, and UDUNITS.
#include "rossby/io/cf_time_units.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"

namespace rossby::detail {
namespace {

constexpr double second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

/// Days from the midnight before the Julian day number 0 to 1970-01-01.
constexpr std::int64_t julian_days_before_1970 = 2'440'588;

/// Replaces the date of Julian day 0 by the Gregorian 1970-01-01; returns other texts unchanged.
std::string without_julian_epoch(const std::string& date, Calendar calendar, std::int64_t& shift_days) {
  if (calendar != Calendar::standard && calendar != Calendar::gregorian && calendar != Calendar::julian)
    return date;
  for (const std::string_view epoch : {"-4712-01-01", "-4712-1-1", "-4713-01-01", "-4713-1-1", "-4713-11-24"})
    if (date.starts_with(epoch) &&
        (date.size() == epoch.size() || date[epoch.size()] == ' ' || date[epoch.size()] == 'T')) {
      shift_days = -julian_days_before_1970;
      return (calendar == Calendar::julian ? "1969-12-19" : "1970-01-01") + date.substr(epoch.size());
    }
  return date;
}

bool is_month(std::string_view name) {
  return name == "months" || name == "month" || name == "mon" || name == "mons";
}

bool is_year(std::string_view name) {
  return name == "years" || name == "year" || name == "yr" || name == "yrs" || name == "a";
}

/// Milliseconds; 0 if the unit is unknown or has no fixed length.
double unit_length(std::string_view name, Calendar calendar) {
  if (calendar == Calendar::days_360 && is_month(name)) return 30 * day;
  if (is_year(name) &&
      (calendar == Calendar::days_360 || calendar == Calendar::no_leap || calendar == Calendar::all_leap))
    return days_in_year(calendar) * day;
  constexpr std::pair<std::string_view, double> names[] = {{"nanosecond", 1e-6},
                                                           {"nanosec", 1e-6},
                                                           {"nsec", 1e-6},
                                                           {"ns", 1e-6},
                                                           {"microsecond", 1e-3},
                                                           {"microsec", 1e-3},
                                                           {"usec", 1e-3},
                                                           {"us", 1e-3},
                                                           {"\u00b5s", 1e-3},  // micro sign
                                                           {"\u03bcs", 1e-3},  // Greek mu
                                                           {"millisecond", 1},
                                                           {"millisec", 1},
                                                           {"msec", 1},
                                                           {"ms", 1},
                                                           {"second", second},
                                                           {"sec", second},
                                                           {"s", second},
                                                           {"minute", minute},
                                                           {"min", minute},
                                                           {"hour", hour},
                                                           {"hr", hour},
                                                           {"h", hour},
                                                           {"day", day},
                                                           {"d", day},
                                                           {"week", 7 * day},
                                                           {"wk", 7 * day},
                                                           {"fortnight", 14 * day},
                                                           {"common_year", 365 * day}};
  for (const auto& [known, length] : names)
    if (name == known || (name.ends_with('s') && name.substr(0, name.size() - 1) == known)) return length;
  return 0;
}

/// pandas' name of a step.
std::string_view frequency(std::string_view name) {
  return is_year(name) ? "YS" : "MS";
}

}  // namespace

bool is_counter_unit(const std::string& units) {
  const std::string text = lower_case(units);
  for (const std::string_view plain :
       {"", "1", "step", "steps", "time_step", "time step", "index", "count", "level"})
    if (text == plain) return true;
  return false;
}

TimeUnits parse_time_units(const std::string& units, Calendar calendar, const std::string& origin) {
  const std::string text = lower_case(units);
  const auto since = text.find(" since ");
  if (since == std::string::npos)
    user_error(
        "{}: units \"{}\" are not units of a time axis. Write \"days since 1970-01-01\" (or hours, minutes, "
        "seconds), or \"1\" for numbers of steps",
        origin, units);
  TimeUnits parsed;
  std::string name = text.substr(0, since);
  name.resize(name.find_last_not_of(' ') + 1);
  const std::string date = units.substr(since + 7);
  parsed.unit = unit_length(name, calendar);
  if (parsed.unit == 0 && (is_month(name) || is_year(name)))
    user_error(
        "{}: time unit \"{}\" has no fixed length. Write dates instead. If the first time is 0, use xarray: "
        "ds[\"time\"] = pd.date_range(\"{}\", periods=ds.sizes[\"time\"], freq=\"{}\"); otherwise begin with "
        "the date of the first step. Or set a calendar in which this unit has a fixed length (360_day{})",
        origin, units.substr(0, name.size()), date.substr(0, 10), frequency(name),
        is_year(name) ? ", noleap" : "");
  if (parsed.unit == 0)
    user_error(
        "{}: time unit \"{}\" is not supported. Supported are weeks, days, hours, minutes, seconds, "
        "milliseconds, microseconds, nanoseconds, common_years, and months in the calendar 360_day",
        origin, units.substr(0, name.size()));
  const auto reference = parse_date(without_julian_epoch(date, calendar, parsed.shift_days), calendar);
  // CF allows offsets alone: names of zones are ambiguous, and some change between summer and winter.
  if (const std::size_t blank = date.find_last_of(' ');
      !reference && blank != std::string::npos && std::isalpha(static_cast<unsigned char>(date.back())) &&
      parse_date(date.substr(0, blank), calendar))
    user_error(
        "{}: units \"{}\" end with \"{}\". Write hours from 0 to 23, and an offset from UTC in place of a "
        "zone's name: 1970-01-01 00:00 +01:00",
        origin, units, date.substr(blank + 1));
  if (!reference)
    user_error("{}: \"{}\" in units \"{}\" is not a date. Write dates like 1970-01-01 00:00", origin, date,
               units);
  parsed.reference = *reference;
  return parsed;
}

void require_whole_milliseconds(const std::vector<double>& values, double unit, const std::string& origin) {
  constexpr double longest = 5000, tolerance = 1e-4;
  if (values.size() < 3) return;
  const double step = (values.back() - values.front()) / static_cast<double>(values.size() - 1) * unit;
  if (step > longest || std::abs(step - std::round(step)) <= tolerance * step) return;
  for (std::size_t t = 1; t < values.size(); ++t)
    if (std::abs((values[t] - values[t - 1]) * unit - step) > 0.05 * step) return;
  user_error(
      "{}: its steps are {:.6g} ms apart, but times are kept to the millisecond. Count the steps, with "
      "xarray: ds[\"time\"] = range(ds.sizes[\"time\"]), and ds[\"time\"].attrs[\"units\"] = \"1\"",
      origin, step);
}

}  // namespace rossby::detail
