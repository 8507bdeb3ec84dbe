// Time spans on a regular axis: conversion of steps to names of spans, and back.
#include <charconv>
#include <cmath>

#include "rossby/base/user_error.hpp"
#include "rossby/io/calendar.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby {
namespace {

constexpr double second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

struct Unit {
  std::string_view name;
  double milliseconds = 0;  // 0: months
  Index months = 0;
};

constexpr Unit time_units[] = {
    {"s", second},      {"second", second},  {"min", minute},     {"minute", minute}, {"h", hour},
    {"hour", hour},     {"d", day},          {"day", day},        {"week", 7 * day},  {"month", 0, 1},
    {"year", 0, 12},    {"seconds", second}, {"minutes", minute}, {"hours", hour},    {"days", day},
    {"weeks", 7 * day}, {"months", 0, 1},    {"years", 0, 12},
};

std::string counted(double count, std::string_view unit) {
  return fmt::format("{} {}{}", count, unit, count == 1 ? "" : "s");
}

}  // namespace

// Products are in double: steps of millions of years are allowed, and exact up to 2^53.
std::string TimeAxis::span_text(Index steps) const {
  const double span = static_cast<double>(steps) * static_cast<double>(step_);
  if (spacing_ == Spacing::months)
    return std::fmod(span, 12) == 0 ? counted(span / 12, "year") : counted(span, "month");
  if (spacing_ == Spacing::calendar) return rule_->text(steps);
  if (spacing_ != Spacing::duration) return "";
  if (std::fmod(span, day) == 0) return counted(span / day, "day");
  if (std::fmod(span, hour) == 0) return fmt::format("{} h", span / hour);
  if (std::fmod(span, minute) == 0) return fmt::format("{} min", span / minute);
  return fmt::format("{} s", span / second);
}

std::optional<double> TimeAxis::span_seconds(Index steps) const {
  if (spacing_ != Spacing::duration) return std::nullopt;
  return static_cast<double>(steps) * static_cast<double>(step_) / second;
}

Index TimeAxis::steps_in(std::string_view span) const {
  double number = 0;
  const auto [end, error] = std::from_chars(span.data(), span.data() + span.size(), number);
  std::string_view word = span.substr(static_cast<std::size_t>(end - span.data()));
  while (word.starts_with(' ')) word.remove_prefix(1);
  const Unit* unit = nullptr;
  for (const Unit& known : time_units)
    if (known.name == word) unit = &known;
  if (error != std::errc() || unit == nullptr)
    user_error(
        "\"{}\" is not a time span. Write a number and a unit, such as \"15 min\", \"1 h\", \"3 months\"",
        span);
  const bool in_months = unit->months > 0;
  if (spacing_ != (in_months ? Spacing::months : Spacing::duration))
    user_error(
        "\"{}\" cannot be counted in steps of this time axis, whose step is {}. Give a multiple of this "
        "step, or a plain number of steps",
        span, step_text());
  const double steps = number * (in_months ? static_cast<double>(unit->months) : unit->milliseconds) /
                       static_cast<double>(step_);
  if (!(steps > 0.5 && steps < 1e15) || std::abs(steps - std::round(steps)) > 1e-6)
    user_error(
        "\"{}\" is not a whole number of steps: this time axis has one step every {}. Give a multiple of "
        "this step",
        span, step_text());
  return static_cast<Index>(std::llround(steps));
}

bool TimeAxis::spans(Index from, Index steps) const {
  if (from + steps >= size()) return true;
  const auto first = static_cast<std::size_t>(from), last = static_cast<std::size_t>(from + steps);
  if (spacing_ == Spacing::months)
    return detail::month_index(detail::civil(stamps_[last], days_)) -
               detail::month_index(detail::civil(stamps_[first], days_)) ==
           steps * step_;
  if (spacing_ == Spacing::calendar)
    return *rule_->ordinal(stamps_[last]) - *rule_->ordinal(stamps_[first]) == steps;
  if (spacing_ != Spacing::duration) return spacing_ == Spacing::counter;
  const double span = static_cast<double>(stamps_[last]) - static_cast<double>(stamps_[first]);
  const auto step = static_cast<double>(step_);
  return std::abs(span - static_cast<double>(steps) * step) <= 0.5 * step;  // files round stamps
}

}  // namespace rossby
