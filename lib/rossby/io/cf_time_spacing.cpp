// The step of a time axis: the usual distance, missing stamps, and the stamps that follow.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "rossby/base/error.hpp"
#include "rossby/io/calendar.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby {
namespace {

using namespace detail;

/// The most frequent distance; among equally frequent ones, the smallest.
template <class T>
T usual(const std::vector<T>& distances) {
  std::map<T, Index> counts;
  for (const T d : distances) ++counts[d];
  T best = distances.front();
  Index most = 0;
  for (const auto& [distance, count] : counts)
    if (count > most) {
      best = distance;
      most = count;
    }
  return best;
}

/// The place of a moment in its month, 0 to 1.
double month_share(Milliseconds stamp, Calendar calendar) {
  const auto month = month_index(civil(stamp, calendar));
  const Milliseconds start = month_start(month, calendar);
  return static_cast<double>(stamp - start) / static_cast<double>(month_start(month + 1, calendar) - start);
}

Milliseconds at_day(std::int64_t month, int day, std::int64_t in_day, Calendar calendar) {
  const Milliseconds start = month_start(month, calendar);
  const auto days = (month_start(month + 1, calendar) - start) / day_milliseconds;
  return start + (std::min<std::int64_t>(day, days) - 1) * day_milliseconds + in_day;
}

}  // namespace

/// The usual distance of stamps whose distances hardly ever agree, such as those of clocks that are sometimes
/// late. It is the median, refined by the mean of all distances near to its multiples. It is in whole
/// seconds, minutes, hours or days if one is within a hundredth.
Milliseconds TimeAxis::typical_distance(std::vector<Milliseconds> distances) {
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  const double median = static_cast<double>(*middle);
  double sum = 0, steps = 0;
  for (const Milliseconds distance : distances) {
    const double count = std::round(static_cast<double>(distance) / median);
    if (count < 1 || std::abs(static_cast<double>(distance) - count * median) > 0.25 * median) continue;
    sum += static_cast<double>(distance);
    steps += count;
  }
  const double mean = steps > 0 ? sum / steps : median;
  for (const double unit : {86'400'000.0, 3'600'000.0, 60'000.0, 1000.0}) {
    const double whole = std::round(mean / unit) * unit;
    if (whole > 0 && std::abs(mean - whole) < 0.01 * mean) return std::llround(whole);
  }
  return std::max<Milliseconds>(1, std::llround(mean));
}

void TimeAxis::detect_spacing() {
  gaps_.clear();
  regular_ = true;
  rule_.reset();
  if (size() < 2) {
    spacing_ = Spacing::none;
    return;
  }
  if (!dated_)
    detect_counter();
  else if (!detect_months()) {
    detect_duration();
    if (!regular_ || !gaps_.empty()) (void)detect_calendar();
  }
}

/// Detects days that follow the calendar: their distances are no multiples of one distance, or leave gaps at
/// every weekend.
bool TimeAxis::detect_calendar() {
  const auto rule = CalendarRule::find(stamps_, days_);
  if (!rule) return false;
  spacing_ = Spacing::calendar;
  rule_ = rule;
  regular_ = true;
  gaps_.clear();
  for (std::size_t t = 1; t < stamps_.size(); ++t)
    if (const Index missing = *rule->ordinal(stamps_[t]) - *rule->ordinal(stamps_[t - 1]) - 1; missing > 0)
      gaps_.push_back({static_cast<Index>(t) - 1, missing});
  return true;
}

void TimeAxis::detect_counter() {
  std::vector<double> distances;
  for (std::size_t t = 1; t < values_.size(); ++t) distances.push_back(values_[t] - values_[t - 1]);
  spacing_ = Spacing::counter;
  count_step_ = usual(distances);
  for (std::size_t t = 0; t < distances.size(); ++t) {
    const double steps = std::round(distances[t] / count_step_);
    constexpr double longest_gap = 1e9;  // beyond it, the step says nothing about the distance
    if (!(steps >= 1 && steps <= longest_gap) ||
        std::abs(distances[t] - steps * count_step_) > 1e-6 * count_step_)
      regular_ = false;
    else if (steps > 1)
      gaps_.push_back({static_cast<Index>(t), static_cast<Index>(steps) - 1});
  }
}

bool TimeAxis::detect_months() {
  // The same day and time of every month, the last day of every month, or the same share of it within 5 %
  // (mid-month).
  bool same_day = true, last_day = true, same_share = true;
  const CivilTime first = civil(stamps_[0], days_);
  const double first_share = month_share(stamps_[0], days_);
  std::vector<std::int64_t> distances;
  for (std::size_t t = 0; t < stamps_.size(); ++t) {
    const CivilTime time = civil(stamps_[t], days_);
    same_day = same_day && time.day == first.day && time.in_day == first.in_day;
    last_day = last_day && time.day == days_in_month(time.year, time.month, days_);
    same_share = same_share && std::abs(month_share(stamps_[t], days_) - first_share) < 0.05;
    if (t > 0) distances.push_back(month_index(time) - month_index(civil(stamps_[t - 1], days_)));
    if (t > 0 && distances.back() < 1) return false;
  }
  if (!same_day && !last_day && !same_share) return false;
  spacing_ = Spacing::months;
  month_end_ = last_day && !same_day;
  step_ = usual(distances);
  for (std::size_t t = 0; t < distances.size(); ++t) {
    if (distances[t] % step_ != 0)
      regular_ = false;
    else if (distances[t] > step_)
      gaps_.push_back({static_cast<Index>(t), distances[t] / step_ - 1});
  }
  return true;
}

void TimeAxis::detect_duration() {
  std::vector<Milliseconds> distances;
  for (std::size_t t = 1; t < stamps_.size(); ++t) distances.push_back(stamps_[t] - stamps_[t - 1]);
  spacing_ = Spacing::duration;
  step_ = usual(distances);
  // Stamps stored as float32 or in decimal days are off by rounding; a thousandth of a step is no gap.
  const auto multiple = [&](Milliseconds distance) {
    const Milliseconds steps = (distance + step_ / 2) / step_;
    return steps >= 1 && std::abs(distance - steps * step_) <= step_ / 1000;
  };
  if (distances.size() >= 8 &&
      2 * std::count_if(distances.begin(), distances.end(), multiple) < std::ssize(distances))
    step_ = typical_distance(distances);
  const Milliseconds slack = step_ / 1000;
  for (std::size_t t = 0; t < distances.size(); ++t) {
    const Milliseconds steps = (distances[t] + step_ / 2) / step_;
    if (steps < 1 || std::abs(distances[t] - steps * step_) > slack)
      regular_ = false;
    else if (steps > 1)
      gaps_.push_back({static_cast<Index>(t), steps - 1});
  }
}

Milliseconds TimeAxis::next_stamp(Milliseconds last) const {
  if (spacing_ == Spacing::calendar) return rule_->stamp(*rule_->ordinal(last) + 1);
  if (spacing_ != Spacing::months) return last + step_;
  const CivilTime time = civil(last, days_);
  const std::int64_t month = month_index(time) + step_;
  if (month_end_) return at_day(month, 31, time.in_day, days_);
  // The day of mid-month stamps depends on the month: take it from the latest stamp of the same calendar
  // month.
  for (auto stamp = stamps_.rbegin(); stamp != stamps_.rend(); ++stamp) {
    const CivilTime earlier = civil(*stamp, days_);
    if (month_index(earlier) % 12 == month % 12 && month_index(earlier) < month)
      return at_day(month, earlier.day, earlier.in_day, days_);
  }
  return at_day(month, time.day, time.in_day, days_);
}

std::string TimeAxis::step_text() const {
  const auto plural = [](double count, std::string_view name) {
    return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
  };
  switch (spacing_) {
    case Spacing::none:
      return "none";
    case Spacing::counter:
      return plural(count_step_, "step");
    case Spacing::months:
      return step_ % 12 == 0 ? plural(static_cast<double>(step_ / 12), "year")
                             : plural(static_cast<double>(step_), "month");
    case Spacing::calendar:
      return rule_->text(1);
    case Spacing::duration:
      break;
  }
  const auto step = static_cast<double>(step_);
  if (step_ % day_milliseconds == 0) return plural(step / 86'400'000, "day");
  if (step_ % 3'600'000 == 0) return plural(step / 3'600'000, "hour");
  if (step_ % 60'000 == 0) return plural(step / 60'000, "minute");
  return plural(step / 1000, "second");
}

}  // namespace rossby
