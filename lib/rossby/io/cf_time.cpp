#include "rossby/io/cf_time.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "rossby/base/user_error.hpp"
#include "rossby/io/array_file.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/calendar.hpp"
#include "rossby/io/cf_time_units.hpp"

namespace rossby {
namespace {

using namespace detail;

/// 12.7 million years: stamps and their distances stay far from the limits of 64 bits.
constexpr Milliseconds latest_stamp = 400'000'000'000'000'000;

Milliseconds moment(const ParsedDate& date, Calendar calendar) {
  const std::int64_t days = days_from_civil(date.year, date.month, date.day, calendar);
  return days * day_milliseconds + date.hour * 3'600'000LL + (date.minute - date.zone) * 60'000LL +
         date.milliseconds;
}

/// `back`: milliseconds by which a stamp precedes the one before it.
std::string why_it_does_not_ascend(Milliseconds back, const std::vector<double>& values, std::size_t t,
                                   double unit, std::string_view origin) {
  if (back > 0 && back < 3'600'000)
    return ". If the times are local (end of summer time), write the times in UTC";
  if (back == 0 && values[t] > values[t - 1])
    return ". Times are stored to the millisecond. Give the time axis a coarser step, or count steps (units "
           "\"1\")";
  constexpr std::string_view names = ": variable ";
  const std::size_t at = origin.rfind(names);
  const std::string_view name = at == std::string_view::npos ? "time" : origin.substr(at + names.size());
  const auto x = static_cast<float>(values[t]);
  const double next = static_cast<double>(std::nextafter(x, std::numeric_limits<float>::infinity()));
  const double spacing = (next - static_cast<double>(x)) * unit;
  // Rounding makes neighbours equal only if the step is not much longer than the precision.
  const double mean =
      std::abs(values.back() - values.front()) / static_cast<double>(values.size() - 1) * unit;
  if (values[t] == values[t - 1] && values[t] == static_cast<double>(x) && spacing >= 1000 &&
      spacing > 0.5 * mean)
    return fmt::format(
        ". float32 keeps times of this size only to {:.4g} s. Store the time as double, or count from a "
        "later date",
        1e-3 * spacing);
  if (values[t] == values[t - 1])
    return fmt::format(
        ". If steps occur twice, drop the duplicates: ds.drop_duplicates(\"{}\") of xarray. If the times are "
        "local (end of summer time), write the times in UTC",
        name);
  return fmt::format(". Sort the steps: ds.sortby(\"{}\") of xarray", name);
}

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Calendar TimeAxis::calendar_named(const std::string& name, const std::string& origin) {
  constexpr std::pair<std::string_view, Calendar> names[] = {
      {"", Calendar::standard},          {"standard", Calendar::standard},
      {"gregorian", Calendar::standard}, {"proleptic_gregorian", Calendar::gregorian},
      {"julian", Calendar::julian},      {"noleap", Calendar::no_leap},
      {"365_day", Calendar::no_leap},    {"all_leap", Calendar::all_leap},
      {"366_day", Calendar::all_leap},   {"360_day", Calendar::days_360},
      {"360", Calendar::days_360}};  // the last one: files older than CF
  const std::string text = lower_case(name);
  for (const auto& [known, calendar] : names)
    if (known == text) return calendar;
  user_error(
      "{}: calendar \"{}\" is unknown. Set the attribute calendar of the time variable to standard, "
      "proleptic_gregorian, julian, noleap, all_leap or 360_day",
      origin, name);
}

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
  axis.dated_ = !is_counter_unit(units);
  if (axis.dated_) {
    axis.days_ = calendar_named(calendar, origin);
    const TimeUnits parsed = parse_time_units(units, axis.days_, origin);
    axis.units_ = units;
    axis.calendar_ = calendar.empty() ? "standard" : lower_case(calendar);
    if (axis.calendar_ == "360") axis.calendar_ = "360_day";
    axis.unit_ = parsed.unit;
    axis.reference_ = moment(parsed.reference, axis.days_) + parsed.shift_days * day_milliseconds;
  }
  const double limit = axis.dated_ ? static_cast<double>(latest_stamp) / axis.unit_ : 9e15;
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (!(std::abs(values[t]) < limit))
      user_error("{}: step {} has no usable time ({}). Write a valid time for this step, or remove the step",
                 origin, t, values[t]);
    const Milliseconds stamp = axis.dated_ ? axis.reference_ + std::llround(values[t] * axis.unit_) : 0;
    const bool ascends = t == 0 || (axis.dated_ ? stamp > axis.stamps_.back() : values[t] > values[t - 1]);
    if (!ascends) {
      const auto date = [&](Milliseconds at) {
        const CivilTime time = civil(at, axis.days_);
        return axis.dated_ ? fmt::format(" ({:04}-{:02}-{:02}T{:02}:{:02})", time.year, time.month, time.day,
                                         time.in_day / 3'600'000, time.in_day / 60'000 % 60)
                           : std::string();
      };
      const Milliseconds before = axis.dated_ ? axis.stamps_.back() : 0;
      user_error("{}: time does not ascend: step {} has {}{}, but the step before has {}{}{}", origin, t,
                 values[t], date(stamp), values[t - 1], date(before),
                 why_it_does_not_ascend(axis.dated_ ? before - stamp : 0, values, t, axis.unit_, origin));
    }
    if (axis.dated_) axis.stamps_.push_back(stamp);
  }
  axis.values_ = std::move(values);
  if (axis.dated_) require_whole_milliseconds(axis.values_, axis.unit_, origin);
  axis.detect_spacing();
  axis.undo_rounding();
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
  if (!period) user_error("{} is not a month. Write months like 1970-01", first_month);
  const CivilTime start = civil(period->begin, Calendar::standard);
  const auto start_of = [](std::int64_t month) { return month_start(month, Calendar::standard); };
  const Milliseconds reference = start_of(start.year * 12);
  std::vector<double> values;
  for (Index t = 0; t < steps; ++t)
    values.push_back(static_cast<double>((start_of(month_index(start) + t) - reference) / day_milliseconds));
  return parse(std::move(values), fmt::format("days since {:04}-01-01", start.year), "standard", "time axis");
}

std::string TimeAxis::unit() const {
  return dated_ ? units_.substr(0, lower_case(units_).find(" since ")) : "1";
}

double TimeAxis::to_value(Milliseconds stamp) const {
  return static_cast<double>(stamp - reference_) / unit_;
}

/// The shortest form that distinguishes all stamps, stored because text() is called for many of them.
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

double TimeAxis::year_fraction(Index step) const {
  require(dated_, "the time of year of a dated axis");
  const Milliseconds stamp = stamps_[static_cast<std::size_t>(step)];
  const auto start = [&](std::int64_t year) { return days_from_civil(year, 1, 1, days_) * day_milliseconds; };
  const std::int64_t year = civil(stamp, days_).year;
  return static_cast<double>(stamp - start(year)) / static_cast<double>(start(year + 1) - start(year));
}

std::optional<Period> TimeAxis::day_named(std::string_view date) const {
  const auto parsed = detail::parse_date(date, days_);
  if (!parsed || parsed->fields != 3) return std::nullopt;
  return Period::parse(date, days_);
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
    // A mid-month stamp stands for its whole month.
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
  if (size() == 0)
    user_error("{}: {} is not on the time axis, which has no steps. Choose a file or steps with data",
               origin_, date);
  const bool readable = dated_ ? Period::parse(date, days_).has_value() : plain_number(date).has_value();
  user_error("{}: {} {}. Give a time on the time axis, which runs from {} to {}", origin_, date,
             readable ? "is not on the time axis" : (dated_ ? "is not a date" : "is not a step number"),
             text(0), text(size() - 1));
}

bool TimeAxis::ends_before(std::string_view date) const {
  const auto period = dated_ && !stamps_.empty() ? Period::parse(date, days_) : std::nullopt;
  return period && period->begin > next_stamp(stamps_.back());
}

Index TimeAxis::steps_before(std::string_view date) const {
  if (!dated_) {
    const auto number = plain_number(date);
    if (!number)
      user_error("{}: {} is not a step number, and this time axis has no dates. Give a step number", origin_,
                 date);
    return std::lower_bound(values_.begin(), values_.end(), *number) - values_.begin();
  }
  const auto period = Period::parse(date, days_);
  if (!period)
    user_error("{}: {} is not a date. Write dates like 1986-08, 1986-08-15 or 2012-03-01T06:30", origin_,
               date);
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

TimeAxis TimeAxis::filled(std::vector<Index>& source) const {
  if (!regular_)
    user_error(
        "{}: the time axis is not regular, so the gaps of the time axis cannot be filled. Set "
        "data.fill_steps = false, or write the data with a constant time step",
        origin_);
  Index missing = 0;
  for (const Gap& gap : gaps_) missing += gap.missing;
  check_memory(size() + missing, 3 * sizeof(double),
               fmt::format("{}: a time axis with all its gaps filled", origin_));
  TimeAxis whole = *this;
  whole.values_.clear();
  whole.stamps_.clear();
  source.clear();
  auto gap = gaps_.begin();
  for (Index t = 0; t < size(); ++t) {
    source.push_back(t);
    whole.values_.push_back(values_[static_cast<std::size_t>(t)]);
    if (dated_) whole.stamps_.push_back(stamps_[static_cast<std::size_t>(t)]);
    if (gap == gaps_.end() || gap->after != t) continue;
    for (Index k = 0; k < gap->missing; ++k) {
      source.push_back(-1);
      if (dated_) whole.stamps_.push_back(next_stamp(whole.stamps_.back()));
      whole.values_.push_back(dated_ ? to_value(whole.stamps_.back()) : whole.values_.back() + count_step_);
    }
    ++gap;
  }
  whole.detect_spacing();
  whole.detect_form();
  return whole;
}

TimeAxis TimeAxis::behind(std::span<const double> instants) const {
  std::vector<double> values;
  for (const double instant : instants) {
    if (!(std::abs(instant) < static_cast<double>(latest_stamp)))
      user_error("{}: {} is not a time that a step can have", origin_, instant);
    values.push_back(dated_ ? to_value(static_cast<Milliseconds>(instant)) : instant);
  }
  values.insert(values.end(), values_.begin(), values_.end());
  return parse(std::move(values), units_, calendar_, origin_);
}

TimeAxis TimeAxis::after(Index origin, Index count) const {
  require(origin >= 0 && origin < size() && count >= 0, "the origin is on the time axis");
  const Index present = std::min(count, size() - 1 - origin);
  if (present < count && spacing_ == Spacing::none)
    user_error(
        "{}: the time axis has only one step, so the length of a time step is unknown. Use a file with at "
        "least two steps",
        origin_);
  TimeAxis longer = *this;
  for (Index k = present; k < count; ++k) {
    if (dated_) {
      longer.stamps_.push_back(next_stamp(longer.stamps_.back()));
      if (longer.stamps_.back() > 2 * latest_stamp)
        user_error(
            "{}: {} steps of {} after step {} lie beyond the times that can be represented. Forecast fewer "
            "steps",
            origin_, count, step_text(), origin);
      longer.values_.push_back(to_value(longer.stamps_.back()));
    } else {
      longer.values_.push_back(longer.values_.back() + count_step_);
    }
  }
  return longer.slice(origin + 1, count);
}

}  // namespace rossby
