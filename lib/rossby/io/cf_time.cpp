#include "rossby/io/cf_time.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "rossby/base/user_error.hpp"
#include "rossby/io/calendar.hpp"

namespace rossby {
namespace {

using namespace detail;

/// 12.7 million years: stamps and their distances stay far from the ends of 64 bits.
constexpr Milliseconds latest_stamp = 400'000'000'000'000'000;

struct Units {
  Milliseconds unit = 1;
  ParsedDate reference;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

Milliseconds unit_length(std::string_view name, Calendar calendar) {
  if (calendar == Calendar::days_360 && (name == "months" || name == "month")) return 30 * day_milliseconds;
  constexpr std::pair<std::string_view, Milliseconds> names[] = {
      {"milliseconds", 1}, {"millisecond", 1},   {"msec", 1},          {"ms", 1},
      {"seconds", 1000},   {"second", 1000},     {"sec", 1000},        {"secs", 1000},
      {"s", 1000},         {"minutes", 60'000},  {"minute", 60'000},   {"min", 60'000},
      {"mins", 60'000},    {"hours", 3'600'000}, {"hour", 3'600'000},  {"hr", 3'600'000},
      {"hrs", 3'600'000},  {"h", 3'600'000},     {"days", 86'400'000}, {"day", 86'400'000},
      {"d", 86'400'000}};
  for (const auto& [known, length] : names)
    if (known == name) return length;
  return 0;
}

bool is_counter(const std::string& units) {
  for (const std::string_view plain :
       {"", "1", "step", "steps", "time_step", "time step", "index", "count", "level"})
    if (units == plain) return true;
  return false;
}

Calendar parse_calendar(const std::string& name, const std::string& origin) {
  constexpr std::pair<std::string_view, Calendar> names[] = {
      {"", Calendar::standard},          {"standard", Calendar::standard},
      {"gregorian", Calendar::standard}, {"proleptic_gregorian", Calendar::gregorian},
      {"julian", Calendar::julian},      {"noleap", Calendar::no_leap},
      {"365_day", Calendar::no_leap},    {"all_leap", Calendar::all_leap},
      {"366_day", Calendar::all_leap},   {"360_day", Calendar::days_360},
      {"360", Calendar::days_360}};  // the last: files that are older than CF
  const std::string text = lower(name);
  for (const auto& [known, calendar] : names)
    if (known == text) return calendar;
  user_error(
      "{}: calendar \"{}\" is not known; standard, proleptic_gregorian, julian, noleap, all_leap and 360_day "
      "are",
      origin, name);
}

Units parse_units(const std::string& units, Calendar calendar, const std::string& origin) {
  const std::string text = lower(units);
  const auto since = text.find(" since ");
  if (since == std::string::npos)
    user_error(
        "{}: units \"{}\" are no time axis; \"days since 1970-01-01\" (or hours, minutes, seconds) or \"1\" "
        "is right",
        origin, units);
  Units parsed;
  parsed.unit = unit_length(std::string_view(text).substr(0, since), calendar);
  if (parsed.unit == 0)
    user_error(
        "{}: time unit \"{}\" is not supported; days, hours, minutes and seconds are, and months in calendar "
        "360_day",
        origin, units.substr(0, since));
  const std::string date = units.substr(since + 7);
  const auto reference = parse_date(date, calendar);
  if (!reference)
    user_error("{}: \"{}\" in units \"{}\" is no date; e.g. 1970-01-01 00:00 is", origin, date, units);
  parsed.reference = *reference;
  return parsed;
}

Milliseconds moment(const ParsedDate& date, Calendar calendar) {
  const std::int64_t days = days_from_civil(date.year, date.month, date.day, calendar);
  return days * day_milliseconds + date.hour * 3'600'000LL + (date.minute - date.zone) * 60'000LL +
         date.milliseconds;
}

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Period> Period::parse(std::string_view text, Calendar calendar) {
  const auto date = parse_date(text, calendar);
  if (!date) return std::nullopt;
  Period period;
  period.begin = moment(*date, calendar);
  const CivilTime start = civil(period.begin, calendar);
  switch (date->fields) {
    case 1:
      period.end = month_start(month_index(start) + 12, calendar);
      break;
    case 2:
      period.end = month_start(month_index(start) + 1, calendar);
      break;
    case 3:
      period.end = period.begin + day_milliseconds;
      break;
    case 4:
      period.end = period.begin + 3'600'000;
      break;
    case 5:
      period.end = period.begin + 60'000;
      break;
    default:
      period.end = period.begin + 1000;
  }
  return period;
}

TimeAxis TimeAxis::parse(std::vector<double> values, const std::string& units, const std::string& calendar,
                         const std::string& origin) {
  TimeAxis axis;
  axis.origin_ = origin;
  axis.dated_ = !is_counter(lower(units));
  if (axis.dated_) {
    axis.days_ = parse_calendar(calendar, origin);
    const Units parsed = parse_units(units, axis.days_, origin);
    axis.units_ = units;
    axis.calendar_ = calendar.empty() ? "standard" : lower(calendar);
    if (axis.calendar_ == "360") axis.calendar_ = "360_day";
    axis.unit_ = parsed.unit;
    axis.reference_ = moment(parsed.reference, axis.days_);
  }
  const double limit =
      axis.dated_ ? static_cast<double>(latest_stamp) / static_cast<double>(axis.unit_) : 9e15;
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (!(std::abs(values[t]) < limit))
      user_error("{}: step {} has no usable time ({})", origin, t, values[t]);
    const Milliseconds stamp =
        axis.dated_ ? axis.reference_ + std::llround(values[t] * static_cast<double>(axis.unit_)) : 0;
    const bool ascends = t == 0 || (axis.dated_ ? stamp > axis.stamps_.back() : values[t] > values[t - 1]);
    if (!ascends) {
      const auto date = [&](Milliseconds at) {
        const CivilTime time = civil(at, axis.days_);
        return axis.dated_ ? fmt::format(" ({:04}-{:02}-{:02}T{:02}:{:02})", time.year, time.month, time.day,
                                         time.in_day / 3'600'000, time.in_day / 60'000 % 60)
                           : std::string();
      };
      const Milliseconds before = axis.dated_ ? axis.stamps_.back() : 0;
      user_error("{}: time does not ascend: step {} has {}{}, the step before it {}{}{}", origin, t,
                 values[t], date(stamp), values[t - 1], date(before),
                 axis.dated_ && before - stamp > 0 && before - stamp < 3'600'000
                     ? "; local time at the end of summer time? UTC is right"
                     : "");
    }
    if (axis.dated_) axis.stamps_.push_back(stamp);
  }
  axis.values_ = std::move(values);
  axis.detect_spacing();
  axis.detect_form();
  return axis;
}

TimeAxis TimeAxis::counter(Index steps) {
  return regular(steps, "1", 0, 1);
}

TimeAxis TimeAxis::regular(Index steps, const std::string& units, double first, double step) {
  std::vector<double> values;
  for (Index t = 0; t < steps; ++t) values.push_back(first + static_cast<double>(t) * step);
  return parse(std::move(values), units, "", "time axis");
}

TimeAxis TimeAxis::monthly(Index steps, std::string_view first_month) {
  const auto period = Period::parse(first_month, Calendar::standard);
  if (!period) user_error("{} is no month; e.g. 1970-01 is", first_month);
  const CivilTime start = civil(period->begin, Calendar::standard);
  const auto start_of = [](std::int64_t month) { return month_start(month, Calendar::standard); };
  const Milliseconds reference = start_of(start.year * 12);
  std::vector<double> values;
  for (Index t = 0; t < steps; ++t)
    values.push_back(static_cast<double>((start_of(month_index(start) + t) - reference) / day_milliseconds));
  return parse(std::move(values), fmt::format("days since {:04}-01-01", start.year), "standard", "time axis");
}

std::string TimeAxis::unit() const {
  return dated_ ? units_.substr(0, lower(units_).find(" since ")) : "1";
}

double TimeAxis::to_value(Milliseconds stamp) const {
  return static_cast<double>(stamp - reference_) / static_cast<double>(unit_);
}

/// The shortest form that tells all stamps: text() is asked for many of them.
void TimeAxis::detect_form() {
  form_ = spacing_ == Spacing::months ? Form::month : Form::day;
  for (const Milliseconds stamp : stamps_) {
    const CivilTime time = civil(stamp, days_);
    const Form needed = time.in_day % 60'000 != 0 ? Form::second
                        : time.in_day != 0        ? Form::minute
                        : time.day != 1           ? Form::day
                                                  : Form::month;
    form_ = std::max(form_, needed);
  }
}

std::string TimeAxis::text(Index step) const {
  require(step >= 0 && step < size(), "the step is on the time axis");
  if (!dated_) return fmt::format("{}", values_[static_cast<std::size_t>(step)]);
  const CivilTime time = civil(stamps_[static_cast<std::size_t>(step)], days_);
  std::string out = fmt::format("{:04}-{:02}", time.year, time.month);
  if (form_ == Form::month) return out;
  out += fmt::format("-{:02}", time.day);
  if (form_ == Form::day) return out;
  const std::int64_t seconds = time.in_day / 1000;
  out += fmt::format("T{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
  if (form_ == Form::minute) return out;
  return out + fmt::format(":{:02}", seconds % 60);
}

double TimeAxis::day_fraction(Index step) const {
  require(dated_, "the time of day of a dated axis");
  const CivilTime time = civil(stamps_[static_cast<std::size_t>(step)], days_);
  return static_cast<double>(time.in_day) / static_cast<double>(day_milliseconds);
}

int TimeAxis::weekday(Index step) const {
  require(dated_, "the day of the week of a dated axis");
  const Milliseconds stamp = stamps_[static_cast<std::size_t>(step)];
  const Milliseconds days = (stamp - civil(stamp, days_).in_day) / day_milliseconds;
  return static_cast<int>(((days + 3) % 7 + 7) % 7);  // 1970-01-01 was a Thursday
}

int TimeAxis::month(Index step) const {
  require(dated_, "the month of a dated axis");
  return civil(stamps_[static_cast<std::size_t>(step)], days_).month;
}

std::optional<Index> TimeAxis::find(std::string_view date) const {
  if (!dated_) {
    const auto number = plain_number(date);
    if (!number) return std::nullopt;
    const auto found = std::lower_bound(values_.begin(), values_.end(), *number);
    if (found == values_.end() || *found != *number) return std::nullopt;
    return found - values_.begin();
  }
  const auto period = Period::parse(date, days_);
  if (!period) return std::nullopt;
  const Index first = std::lower_bound(stamps_.begin(), stamps_.end(), period->begin) - stamps_.begin();
  if (first < size() && stamps_[static_cast<std::size_t>(first)] < period->end) return first;
  if (spacing_ == Spacing::months && step_ == 1) {
    // A mid-month stamp stands for its month, before and behind the stamp.
    const auto month = month_index(civil(period->begin, days_));
    for (const Index t : {first - 1, first})
      if (t >= 0 && t < size() && month_index(civil(stamps_[static_cast<std::size_t>(t)], days_)) == month)
        return t;
    return std::nullopt;
  }
  if (first == 0 || spacing_ == Spacing::none) return std::nullopt;
  const Milliseconds last = stamps_[static_cast<std::size_t>(first - 1)];
  return period->begin < next_stamp(last) ? std::optional(first - 1) : std::nullopt;
}

Index TimeAxis::step_of(std::string_view date) const {
  if (const auto step = find(date)) return *step;
  if (size() == 0) user_error("{}: {} is not on an empty time axis", origin_, date);
  const bool readable = dated_ ? Period::parse(date, days_).has_value() : plain_number(date).has_value();
  user_error("{}: {} {}; the time axis runs from {} to {}", origin_, date,
             readable ? "is not on the time axis" : (dated_ ? "is no date" : "is no step number"), text(0),
             text(size() - 1));
}

bool TimeAxis::ends_before(std::string_view date) const {
  const auto period = dated_ && !stamps_.empty() ? Period::parse(date, days_) : std::nullopt;
  return period && period->begin > next_stamp(stamps_.back());
}

Index TimeAxis::steps_before(std::string_view date) const {
  if (!dated_) {
    const auto number = plain_number(date);
    if (!number) user_error("{}: {} is no step number, and this time axis has no dates", origin_, date);
    return std::lower_bound(values_.begin(), values_.end(), *number) - values_.begin();
  }
  const auto period = Period::parse(date, days_);
  if (!period) user_error("{}: {} is no date; 1986-08, 1986-08-15 and 2012-03-01T06:30 are", origin_, date);
  return std::lower_bound(stamps_.begin(), stamps_.end(), period->begin) - stamps_.begin();
}

TimeAxis TimeAxis::slice(Index first, Index count) const {
  require(first >= 0 && count >= 0 && first + count <= size(), "the slice lies on the time axis");
  TimeAxis part = *this;
  part.values_.assign(values_.begin() + first, values_.begin() + first + count);
  if (dated_) part.stamps_.assign(stamps_.begin() + first, stamps_.begin() + first + count);
  if (count >= 2) {
    part.detect_spacing();
  } else {  // the step of the whole axis still holds
    part.gaps_.clear();
    part.regular_ = true;
  }
  part.detect_form();
  return part;
}

TimeAxis TimeAxis::after(Index origin, Index count) const {
  require(origin >= 0 && origin < size() && count >= 0, "the origin is on the time axis");
  const Index present = std::min(count, size() - 1 - origin);
  if (present < count && spacing_ == Spacing::none)
    user_error("{}: the time axis has one step only, so it cannot be continued", origin_);
  TimeAxis longer = *this;
  for (Index k = present; k < count; ++k) {
    if (dated_) {
      longer.stamps_.push_back(next_stamp(longer.stamps_.back()));
      if (longer.stamps_.back() > 2 * latest_stamp)
        user_error("{}: {} steps of {} from step {} on leave the time that can be counted", origin_, count,
                   step_text(), origin);
      longer.values_.push_back(to_value(longer.stamps_.back()));
    } else {
      longer.values_.push_back(longer.values_.back() + count_step_);
    }
  }
  return longer.slice(origin + 1, count);
}

}  // namespace rossby
