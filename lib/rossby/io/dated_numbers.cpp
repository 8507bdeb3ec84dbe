#include "rossby/io/dated_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/calendar.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/io/cf_time_units.hpp"
#include "rossby/io/date_order.hpp"

namespace rossby::detail {
namespace {

constexpr int first_year = 1500, last_year = 2500;  // range for numbers without a unit

enum class Form { none, year, month, day_of_year, day, hour, minute, second, decimal_year };

std::string_view name_of(Form form) {
  switch (form) {
    case Form::none:
      return "numbers";
    case Form::year:
      return "years";
    case Form::month:
      return "YYYYMM";
    case Form::day_of_year:
      return "YYYYDDD";
    case Form::day:
      return "YYYYMMDD";
    case Form::hour:
      return "YYYYMMDDHH";
    case Form::minute:
      return "YYYYMMDDHHMM";
    case Form::second:
      return "YYYYMMDDHHMMSS";
    case Form::decimal_year:
      return "decimal years";
  }
  return "";
}

/// Keeps the characters a to z of a unit, in lower case: "day as %Y%m%d.%f" gives "dayasymdf".
std::string only_letters(const std::string& units) {
  std::string text = lower_case(units);
  std::erase_if(text, [](char c) { return c < 'a' || c > 'z'; });
  return text;
}

/// The form named by the units; none if they name no form.
Form form_of_units(const std::string& units) {
  std::string text = only_letters(units);
  for (const char* as : {"dayas", "monthas", "yearas"})
    if (text.starts_with(as)) {
      const std::string_view what(as);
      return what == "dayas" ? Form::day : what == "monthas" ? Form::month : Form::decimal_year;
    }
  constexpr std::pair<std::string_view, Form> names[] = {{"yyyymmdd", Form::day},
                                                         {"ymd", Form::day},
                                                         {"yyyyddd", Form::day_of_year},
                                                         {"yyyydoy", Form::day_of_year},
                                                         {"yj", Form::day_of_year},
                                                         {"yyyymm", Form::month},
                                                         {"ym", Form::month},
                                                         {"yyyymmddhh", Form::hour},
                                                         {"ymdh", Form::hour},
                                                         {"yyyymmddhhmm", Form::minute},
                                                         {"ymdhm", Form::minute},
                                                         {"yyyymmddhhmmss", Form::second},
                                                         {"ymdhms", Form::second},
                                                         {"yyyy", Form::year},
                                                         {"year", Form::year},
                                                         {"years", Form::year},
                                                         {"yr", Form::year},
                                                         {"calendaryear", Form::year},
                                                         {"decimalyear", Form::decimal_year},
                                                         {"decimalyears", Form::decimal_year},
                                                         {"fractionalyear", Form::decimal_year},
                                                         {"fractionalyears", Form::decimal_year},
                                                         {"yearfraction", Form::decimal_year}};
  for (const auto& [name, form] : names)
    if (text == name) return form;
  return Form::none;
}

/// The form of numbers, judged by their size.
Form form_of_size(double value) {
  const auto within = [&](double scale) {
    return value >= first_year * scale && value < (last_year + 1) * scale;
  };
  return within(1)                         ? Form::year
         : within(1e2)                     ? Form::month
         : value >= 1.8e6 && value < 2.2e6 ? Form::day_of_year  // excludes Julian days
         : within(1e4)                     ? Form::day
         : within(1e6)                     ? Form::hour
         : within(1e8)                     ? Form::minute
         : within(1e10)                    ? Form::second
                                           : Form::none;
}

/// The moment that a number's digits name, or none if there is no such date. Decimals are fractions of a day.
std::optional<Milliseconds> moment_of(double value, Form form, Calendar calendar) {
  double whole = std::floor(value), fraction = value - whole;
  if (form != Form::day && fraction != 0) return std::nullopt;
  std::int64_t digits = std::llround(whole);
  const auto take = [&](std::int64_t base) {
    const std::int64_t part = digits % base;
    digits /= base;
    return part;
  };
  if (form == Form::day_of_year) {
    const std::int64_t day = take(1000);
    if (digits < 0 || digits > 9999 || day < 1) return std::nullopt;
    const Milliseconds moment = month_start(12 * digits, calendar) + (day - 1) * day_milliseconds;
    return moment < month_start(12 * (digits + 1), calendar) ? std::optional(moment) : std::nullopt;
  }
  std::int64_t seconds = form >= Form::second ? take(100) : 0;
  if (form >= Form::minute) seconds += 60 * take(100);
  const std::int64_t minutes_and_seconds = seconds;
  if (form >= Form::hour) seconds += 3600 * take(100);
  const auto day = static_cast<int>(form >= Form::day ? take(100) : 1);
  const auto month = static_cast<int>(form >= Form::month ? take(100) : 1);
  if (month < 1 || month > 12 || day < 1 || seconds >= 86'400 || minutes_and_seconds >= 3600 || digits < 0 ||
      digits > 9999 || day > days_in_month(digits, month, calendar))
    return std::nullopt;
  return days_from_civil(digits, month, day, calendar) * day_milliseconds + 1000 * seconds +
         std::llround(fraction * static_cast<double>(day_milliseconds) / 1000) * 1000;
}

/// Decimal years a month apart become months. Others become moments, to the nearest half day if they are days
/// apart.
std::optional<std::vector<Milliseconds>> moments_of_years(const std::vector<double>& values,
                                                          Calendar calendar) {
  std::vector<Milliseconds> moments;
  bool months = values.size() > 1;
  for (std::size_t t = 1; t < values.size(); ++t) {
    const double distance = 12 * (values[t] - values[t - 1]);
    months = months && distance > 0.5 && std::abs(distance - std::round(distance)) < 0.2;
  }
  if (months) {
    // The place of the first one in its month: rounding may have moved it before the month's start.
    const double first = 12 * values.front();
    const double start = std::abs(first - std::round(first)) < 0.1 ? std::round(first) : std::floor(first);
    const bool middle = first - start > 0.25;
    for (const double value : values) {
      const auto month = std::llround(start + std::round(12 * value - first));
      const Milliseconds begin = month_start(month, calendar),
                         length = month_start(month + 1, calendar) - begin;
      moments.push_back(begin + (middle ? length / 2 : 0));
    }
    return moments;
  }
  for (const double value : values) {
    const auto year = static_cast<std::int64_t>(std::floor(value));
    const Milliseconds begin = month_start(12 * year, calendar);
    const auto length = static_cast<double>(month_start(12 * (year + 1), calendar) - begin);
    moments.push_back(begin + std::llround((value - std::floor(value)) * length));
  }
  std::vector<Milliseconds> distances;
  for (std::size_t t = 1; t < moments.size(); ++t) distances.push_back(moments[t] - moments[t - 1]);
  std::nth_element(distances.begin(), distances.begin() + std::ssize(distances) / 2, distances.end());
  constexpr Milliseconds half_day = day_milliseconds / 2;
  if (distances.empty() || distances[distances.size() / 2] < day_milliseconds - 3'600'000)
    return std::nullopt;
  for (Milliseconds& moment : moments)
    moment = std::llround(static_cast<double>(moment) / static_cast<double>(half_day)) * half_day;
  return moments;
}

/// The coarsest of days, hours, minutes and seconds in which all moments are whole.
DatedNumbers in_units(std::vector<Milliseconds> moments, const std::string& calendar, Calendar days) {
  DatedNumbers dated;
  dated.calendar = calendar.empty() ? "standard" : calendar;
  const Milliseconds reference = days_from_civil(1970, 1, 1, days) * day_milliseconds;  // not 0 in all
  for (Milliseconds& moment : moments) moment -= reference;
  constexpr std::pair<const char*, Milliseconds> units[] = {{"days", day_milliseconds},
                                                            {"hours", 3'600'000},
                                                            {"minutes", 60'000},
                                                            {"seconds", 1000},
                                                            {"milliseconds", 1}};
  for (const auto& [name, length] : units) {
    const auto whole = [length = length](Milliseconds moment) { return moment % length == 0; };
    if (!std::all_of(moments.begin(), moments.end(), whole)) continue;
    dated.units = fmt::format("{} since 1970-01-01", name);
    for (const Milliseconds moment : moments) dated.values.push_back(static_cast<double>(moment / length));
    break;
  }
  return dated;
}

bool all_whole(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == std::floor(x); });
}

/// The offset of Julian or modified Julian days from days since 1858-11-17; none for other units.
std::optional<double> julian_offset(const std::string& units) {
  const std::string text = only_letters(units);
  for (const char* name : {"jd", "julianday", "juliandays", "juliandate", "juliandaynumber", "daysjulianday"})
    if (text == name) return 2'400'000.5;
  for (const char* name : {"mjd", "modifiedjulianday", "modifiedjuliandays", "modifiedjuliandate"})
    if (text == name) return 0.0;
  return std::nullopt;
}

/// Within a hundred years of today.
bool look_like_julian_days(const std::vector<double>& values) {
  return values.front() >= 2'420'000 && values.back() <= 2'490'000;
}

std::string advice() {
  return "Write dates, with xarray: ds[\"time\"] = pd.to_datetime(…), or step numbers from 0 on";
}

/// The dates that numbers without a unit probably are, with the unit that would make them so; empty if there
/// is none.
std::string likely_dates(const std::vector<double>& values) {
  const auto within = [&](double low, double high) { return values.front() >= low && values.back() < high; };
  const auto says = [&](const char* what, const char* unit) {
    return fmt::format(
        "its numbers ({} to {}) look like {}, but have no unit, and are read as plain counts (guessed). For "
        "dates, set units = \"{}\"",
        values.front(), values.back(), what, unit);
  };
  if (look_like_julian_days(values)) return says("Julian days", "Julian day");
  if (within(3.1e8, 4.2e9)) return says("seconds since 1970", "seconds since 1970-01-01");  // 1980 to 2103
  if (within(3.1e11, 4.2e12)) return says("milliseconds since 1970", "milliseconds since 1970-01-01");
  if (within(3.1e14, 4.2e15)) return says("microseconds since 1970", "microseconds since 1970-01-01");
  constexpr double large = 10'000;
  if (std::abs(values.front()) < large) return "";
  return fmt::format(
      "its numbers ({} to {}) have no unit, and are read as plain counts (guessed). For dates, set units "
      "such as \"days since 1970-01-01\"",
      values.front(), values.back());
}

}  // namespace

std::optional<DatedNumbers> dates_in_numbers(const std::vector<double>& values, const std::string& units,
                                             const std::string& calendar, const std::string& origin,
                                             std::string& remark) {
  if (values.empty()) return std::nullopt;
  if (is_counter_unit(units) && values.front() > 3.1e17 && values.back() < 4.2e18)  // 1980 to 2103
    user_error(
        "{}: its numbers ({} to {}) look like nanoseconds since 1970, but have no unit. Set units = "
        "\"nanoseconds since 1970-01-01\"",
        origin, values.front(), values.back());
  if (!std::all_of(values.begin(), values.end(), [](double x) { return std::abs(x) < 1e16; }))
    return std::nullopt;
  if (const auto offset = julian_offset(units)) {
    DatedNumbers dated{{}, "days since 1858-11-17", "standard", ""};
    for (const double value : values) dated.values.push_back(value - *offset);
    dated.remark = fmt::format("its numbers ({} to {}) are read as {}Julian days", values.front(),
                               values.back(), *offset > 0 ? "" : "modified ");
    return dated;
  }
  Form form = form_of_units(units);
  const bool guessed = form == Form::none;
  if (guessed && (!is_counter_unit(units) || values.size() < 2)) return std::nullopt;
  if (guessed) {
    remark = likely_dates(values);
    form = form_of_size(values.front());
    if (form == Form::none || form_of_size(values.back()) != form) {
      refuse_other_date_orders(values, Calendar::standard, origin);
      return std::nullopt;
    }
  }
  if (form == Form::year && !all_whole(values)) form = Form::decimal_year;
  const Calendar days = TimeAxis::calendar_named(calendar, origin);
  if (guessed && form == Form::year) {
    remark = fmt::format(
        "its numbers ({} to {}) look like years, but have no unit, and are read as plain counts (guessed). "
        "For dates, set units = \"years\"",
        values.front(), values.back());
    return std::nullopt;
  }
  std::vector<Milliseconds> moments;
  if (form == Form::decimal_year) {
    const auto is_year = [](double x) { return x >= 0 && x < 10'000; };
    if (const auto other = std::find_if_not(values.begin(), values.end(), is_year); other != values.end()) {
      if (guessed) return std::nullopt;
      user_error("{}: step {} has {}, which is not a year. {}", origin, other - values.begin(), *other,
                 advice());
    }
    const auto found = moments_of_years(values, days);
    if (!found)
      user_error("{}: the times ({} to {}) are decimal years less than a day apart, too coarse for dates. {}",
                 origin, values.front(), values.back(), advice());
    moments = *found;
  }
  std::size_t bad = values.size();
  for (std::size_t t = 0; form != Form::decimal_year && t < values.size(); ++t) {
    const auto moment = moment_of(values[t], form, days);
    if (moment) moments.push_back(*moment);
    if (!moment) bad = std::min(bad, t);
  }
  if (bad < values.size()) {
    refuse_other_date_orders(values, days, origin);
    // Numbers of which fewer than nine in ten are dates are counts.
    if (guessed && 10 * moments.size() < 9 * values.size()) return std::nullopt;
    user_error("{}: the times look like {}, but step {} has {}, which is not a date. {}", origin,
               name_of(form), bad, values[bad], advice());
  }
  if (form == Form::day && !guessed && values.size() > 1 && values.back() < first_year * 1e4)
    refuse_other_date_orders(values, days, origin);
  DatedNumbers dated = in_units(std::move(moments), calendar, days);
  dated.remark = fmt::format("its numbers ({} to {}) are read as {}{}", values.front(), values.back(),
                             name_of(form), guessed ? " (guessed: it has no unit)" : "");
  return dated;
}

std::string doubt_of_years(const std::vector<double>& values, const std::string& units, const TimeAxis& axis,
                           const std::string& origin) {
  if (!axis.dated() || axis.size() == 0) return "";
  constexpr double year = 365.25 * static_cast<double>(day_milliseconds);
  const auto from = 1970 + static_cast<double>(axis.stamp(0)) / year,
             to = 1970 + static_cast<double>(axis.stamp(axis.size() - 1)) / year;
  if (from > -5000 && to < 10'000) return "";
  const Form form = form_of_size(values.front());
  const auto is_date = [&](double x) { return moment_of(x, form, Calendar::all_leap).has_value(); };
  if (form >= Form::month && form_of_size(values.back()) == form &&
      std::all_of(values.begin(), values.end(), is_date))
    user_error(
        "{}: its units are \"{}\", but its numbers ({:.0f} to {:.0f}) look like dates ({}). Set units = "
        "\"{}\", or write dates with xarray: ds[\"time\"] = pd.to_datetime(…)",
        origin, units, values.front(), values.back(), name_of(form), name_of(form));
  return fmt::format(
      "warning: the stamps run from {} to {}. If these dates are wrong, correct the units \"{}\" of the "
      "numbers {} to {}",
      axis.text(0), axis.text(axis.size() - 1), units, values.front(), values.back());
}

namespace {

/// Converts "20150131T180000Z" to "2015-01-31T18:00:00Z": ISO 8601's basic form to its extended form. Other
/// texts stay unchanged.
std::string extended(std::string_view text) {
  const auto digits = [](std::string_view some) {
    const auto end = some.find_first_not_of("0123456789");
    return end == std::string_view::npos ? some.size() : end;
  };
  if (digits(text) != 8) return std::string(text);
  std::string out = fmt::format("{}-{}-{}", text.substr(0, 4), text.substr(4, 2), text.substr(6, 2));
  text.remove_prefix(8);
  if (text.empty()) return out;
  out += text.front();
  text.remove_prefix(1);
  const std::size_t clock = digits(text);
  if (clock != 4 && clock != 6) return out + std::string(text);
  for (std::size_t k = 0; k < clock; k += 2) out += fmt::format("{}{}", k == 0 ? "" : ":", text.substr(k, 2));
  return out + std::string(text.substr(clock));
}

/// True if a date has an offset from UTC or says that it is UTC.
bool has_zone(std::string_view text) {
  const auto clock = text.find(':');
  return text.ends_with('Z') || text.ends_with("UTC") || text.ends_with("GMT") ||
         (clock != std::string_view::npos && text.find_first_of("+-", clock) != std::string_view::npos);
}

}  // namespace

DatedNumbers dates_in_texts(const std::vector<std::string>& texts, const std::string& calendar,
                            const std::string& origin) {
  const Calendar days = TimeAxis::calendar_named(calendar, origin);
  std::vector<Milliseconds> moments;
  std::size_t zones = 0;
  for (std::size_t t = 0; t < texts.size(); ++t) {
    const std::string date = extended(clean_text(texts[t]));
    const auto period = Period::parse(date, days);
    if (period && date.find_first_not_of("0123456789") < 4)
      user_error("{}: step {} has \"{}\", whose year does not have four digits. Write dates like 2020-01-31",
                 origin, t, texts[t]);
    if (!period)
      user_error(
          "{}: step {} has \"{}\", which is not a date. Write dates like 2020-01-31T18:00:00 or "
          "2020-01-31_18:00:00",
          origin, t, texts[t]);
    moments.push_back(period->begin);
    zones += has_zone(date) ? 1 : 0;
  }
  DatedNumbers dated = in_units(std::move(moments), calendar, days);
  dated.remark = "its stamps are read from text";
  if (zones > 0 && zones < texts.size())
    dated.remark += fmt::format("; {} of {} have no offset from UTC, and are read as UTC (guessed)",
                                texts.size() - zones, texts.size());
  return dated;
}

}  // namespace rossby::detail
