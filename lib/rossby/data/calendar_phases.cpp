#include "rossby/data/calendar_phases.hpp"

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

/// The usual distance of two stamps, with a month as its longest; 0: unknown.
Milliseconds usual_step(const TimeAxis& axis) {
  using Spacing = TimeAxis::Spacing;
  if (axis.spacing() == Spacing::months) return 31 * day_milliseconds * axis.step_months();
  const bool known = axis.spacing() == Spacing::duration || axis.spacing() == Spacing::calendar;
  return known ? axis.step_milliseconds() : 0;
}

Index row_of(const TimeAxis& axis, CalendarTable table, Index step, Index count) {
  switch (table) {
    case CalendarTable::time_of_day:
      return part_of_day(axis, step, count);
    case CalendarTable::day_of_week:
      return axis.weekday(step);
    case CalendarTable::month:
      return axis.month(step) - 1;
  }
  bug("a calendar table of a known kind");
}

}  // namespace

std::optional<Index> steps_of_day(const TimeAxis& axis) {
  if (!axis.dated() || !axis.regular() || axis.spacing() != TimeAxis::Spacing::duration) return std::nullopt;
  const Milliseconds step = axis.step_milliseconds();
  if (step <= 0 || step > day_milliseconds || day_milliseconds % step != 0) return std::nullopt;
  return day_milliseconds / step;
}

Index part_of_day(const TimeAxis& axis, Index step, Index a_day) {
  return static_cast<Index>(axis.day_fraction(step) * static_cast<double>(a_day) + 0.5) % a_day;
}

std::string_view name_of(CalendarTable table) {
  switch (table) {
    case CalendarTable::time_of_day:
      return "time_of_day";
    case CalendarTable::day_of_week:
      return "day_of_week";
    case CalendarTable::month:
      return "month";
  }
  bug("a calendar table of a known kind");
}

std::string_view CalendarPhases::obstacle(const TimeAxis& axis, CalendarTable table) {
  if (!axis.dated()) return "the time axis counts steps and has no dates";
  const Milliseconds step = usual_step(axis);
  if (step <= 0) return "the step of the time axis is not known";
  switch (table) {
    case CalendarTable::time_of_day:
      if (step >= day_milliseconds) return "the time axis has one step a day or fewer";
      return steps_of_day(axis) ? "" : "the time axis has no regular step that divides a day";
    case CalendarTable::day_of_week:
      return step > day_milliseconds ? "the time axis has a step of more than a day" : "";
    case CalendarTable::month:
      if (step < day_milliseconds) return "the time axis has a step of less than a day";
      return step > 186 * day_milliseconds ? "the time axis has a step of more than half a year" : "";
  }
  bug("a calendar table of a known kind");
}

CalendarPhases CalendarPhases::of(const TimeAxis& axis, CalendarTable table, Index ahead) {
  require(obstacle(axis, table).empty(), "a calendar table that the time axis has");
  CalendarPhases phases;
  phases.count = table == CalendarTable::time_of_day ? *steps_of_day(axis)
                 : table == CalendarTable::month     ? 12
                                                     : 7;
  const auto add = [&](const TimeAxis& part) {
    for (Index t = 0; t < part.size(); ++t) phases.of_step.push_back(row_of(part, table, t, phases.count));
  };
  add(axis);
  if (ahead > 0) add(axis.after(axis.size() - 1, ahead));
  return phases;
}

}  // namespace rossby
