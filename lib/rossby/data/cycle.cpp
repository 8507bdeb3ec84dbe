#include "rossby/data/cycle.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "rossby/base/user_error.hpp"
#include "rossby/data/calendar_phases.hpp"

namespace rossby {
namespace {

constexpr Index days_of_year = 366;
constexpr const char* names[] = {"none", "time_of_day", "day_type", "time_of_week", "month", "day_of_year"};

[[noreturn]] void refuse(CycleKind kind, const std::string& why) {
  user_error("data.cycle = \"{}\": {}. Set data.cycle = \"none\", or choose a cycle that fits the time axis",
             name_of(kind), why);
}

void require_dates(const TimeAxis& axis, CycleKind kind) {
  if (!axis.dated()) refuse(kind, "the time axis counts steps and has no dates");
  if (!axis.regular() || axis.spacing() == TimeAxis::Spacing::none)
    refuse(kind, "the steps of the time axis are not regular");
}

/// Steps per day.
Index day_phases(const TimeAxis& axis, CycleKind kind) {
  const std::optional<Index> a_day = steps_of_day(axis);
  if (!a_day)
    refuse(kind,
           fmt::format("the time axis has a step of {}, which does not divide a day", axis.step_text()));
  if (*a_day == 1 && kind == CycleKind::time_of_day) refuse(kind, "the time axis has one step a day");
  return *a_day;
}

void add_days(const TimeAxis& axis, CyclePhases& phases) {
  const Index a_day = day_phases(axis, phases.kind);
  CyclePhases::Level of_day{a_day, {}}, of_type{2 * a_day, {}}, of_week{7 * a_day, {}};
  // Days begin at midnight, not at the time of the first stamp.
  const auto into_day =
      static_cast<Milliseconds>(axis.day_fraction(0) * static_cast<double>(day_milliseconds) + 0.5);
  for (Index t = 0; t < axis.size(); ++t) {
    const auto slot = static_cast<std::int32_t>(part_of_day(axis, t, a_day));
    const int weekday = axis.weekday(t);
    of_day.of_step.push_back(slot);
    of_type.of_step.push_back(static_cast<std::int32_t>((weekday < 5 ? 0 : a_day) + slot));
    of_week.of_step.push_back(static_cast<std::int32_t>(weekday * a_day + slot));
    phases.period.push_back(
        static_cast<std::int32_t>((axis.stamp(t) - axis.stamp(0) + into_day) / day_milliseconds));
  }
  phases.levels.push_back(std::move(of_day));
  if (phases.kind != CycleKind::time_of_day) phases.levels.push_back(std::move(of_type));
  if (phases.kind == CycleKind::time_of_week) phases.levels.push_back(std::move(of_week));
  std::vector<std::vector<std::int32_t>>& above = phases.ancestors;
  above.resize(phases.levels.size());
  for (std::int32_t p = 0; p < phases.finest().count; ++p) {
    const auto slot = static_cast<std::int32_t>(p % a_day);
    const bool week = phases.levels.size() == 3;
    const Index type = week ? (p / a_day < 5 ? 0 : 1) : p / a_day;
    above[0].push_back(slot);
    if (above.size() > 1) above[1].push_back(static_cast<std::int32_t>(type * a_day + slot));
    if (week) above[2].push_back(p);
  }
  phases.ring = phases.kind == CycleKind::time_of_week ? 7 * a_day : a_day;
}

void add_years(const TimeAxis& axis, const CycleSpec& spec, CyclePhases& phases) {
  const bool months = axis.spacing() == TimeAxis::Spacing::months;
  if (months
          ? axis.step_months() >= 12 || 12 % axis.step_months() != 0
          : axis.spacing() == TimeAxis::Spacing::counter || axis.step_milliseconds() > 31 * day_milliseconds)
    refuse(spec.kind, fmt::format("the time axis has a step of {}, which does not fit a cycle over the year",
                                  axis.step_text()));
  const bool harmonic = spec.kind == CycleKind::day_of_year;
  CyclePhases::Level level{harmonic ? days_of_year : 12, {}};
  std::int32_t year = 0;
  for (Index t = 0; t < axis.size(); ++t) {
    const double fraction = axis.year_fraction(t);
    if (t > 0 &&
        (fraction < axis.year_fraction(t - 1) || axis.stamp(t) - axis.stamp(t - 1) >= axis.shortest_year()))
      ++year;
    phases.period.push_back(year);
    level.of_step.push_back(static_cast<std::int32_t>(harmonic ? static_cast<Index>(fraction * days_of_year)
                                                               : axis.month(t) - 1));
  }
  const double steps_a_year =
      months ? 12.0 / static_cast<double>(axis.step_months())
             : 365.25 * static_cast<double>(day_milliseconds) / static_cast<double>(axis.step_milliseconds());
  phases.a_phase = std::max(1.0, steps_a_year / 12);
  phases.ring = level.count;
  phases.ancestors.resize(1);
  for (std::int32_t p = 0; p < level.count; ++p) phases.ancestors[0].push_back(p);
  phases.levels.push_back(std::move(level));
  if (!harmonic) return;
  phases.harmonics = spec.harmonics;
  for (Index p = 0; p < days_of_year; ++p)
    for (Index k = 1; k <= spec.harmonics; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k) * (static_cast<double>(p) + 0.5) /
                           static_cast<double>(days_of_year);
      phases.basis.push_back(std::cos(angle));
      phases.basis.push_back(std::sin(angle));
    }
}

}  // namespace

std::string_view name_of(CycleKind kind) {
  return names[static_cast<std::size_t>(kind)];
}

CycleKind cycle_kind(std::string_view name) {
  for (const CycleKind kind : all_cycle_kinds)
    if (name_of(kind) == name) return kind;
  bug("data.cycle is one of its choices");
}

CycleSpec cycle_spec(const DataSettings& data, CycleKind decided) {
  return {data.cycle == "auto" ? decided : cycle_kind(data.cycle), data.cycle_harmonics, data.cycle_shrink,
          data.cycle_smooth};
}

CyclePhases CyclePhases::of(const TimeAxis& axis, const CycleSpec& spec) {
  CyclePhases phases;
  phases.kind = spec.kind;
  const auto steps = static_cast<std::size_t>(axis.size());
  switch (spec.kind) {
    case CycleKind::none:
      phases.levels.push_back({1, std::vector<std::int32_t>(steps, 0)});
      phases.period.assign(steps, 0);
      phases.ancestors = {{0}};
      return phases;
    case CycleKind::time_of_day:
    case CycleKind::day_type:
    case CycleKind::time_of_week:
      require_dates(axis, spec.kind);
      add_days(axis, phases);
      phases.smooth = 60e3 * spec.smooth_minutes / static_cast<double>(axis.step_milliseconds());
      return phases;
    case CycleKind::month:
    case CycleKind::day_of_year:
      require_dates(axis, spec.kind);
      add_years(axis, spec, phases);
      return phases;
  }
  bug("a cycle of a known kind");
}

}  // namespace rossby
