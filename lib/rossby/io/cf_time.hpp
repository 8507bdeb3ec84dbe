#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/error.hpp"
#include "rossby/base/index.hpp"
#include "rossby/io/calendar.hpp"
#include "rossby/io/calendar_rule.hpp"

namespace rossby {

/// Milliseconds since a calendar's 1970-01-01T00:00 (the Gregorian one's for Julian dates), without leap
/// seconds.
using Milliseconds = std::int64_t;

/// A named stretch of time: "1986", "1986-08", "1986-08-15", "2012-03-01T06", "2012-03-01T06:30",
/// "2012-03-01T06:30:15" (a blank serves as T, a final Z is allowed). None where the calendar has no such
/// day.
struct Period {
  Milliseconds begin = 0;
  Milliseconds end = 0;  // first moment behind it
  static std::optional<Period> parse(std::string_view text, Calendar calendar = Calendar::gregorian);
};

/// The time axis of a series after CF-1.8, chapter 4.4: strictly ascending stamps "days|hours|minutes|seconds
/// since DATE" in one of its calendars (standard or gregorian, proleptic_gregorian, julian, noleap or
/// 365_day, all_leap or 366_day, 360_day, where "months since" are 30 days), or a plain step counter. A
/// value; const once built.
class TimeAxis {
 public:
  enum class Spacing {
    none,      // fewer than two stamps, nothing known
    duration,  // step_milliseconds()
    months,    // step_months(): stamps at the same place of each month
    calendar,  // days that the calendar names: dekads, 8 days from 1 January, business days
    counter    // step_count(): plain numbers
  };

  /// A gap: after step `after`, `missing` steps are not there.
  struct Gap {
    Index after = 0;
    Index missing = 0;
  };

  TimeAxis() = default;

  /// `origin` (file and variable) begins every message. Throws UserError where units or calendar are not
  /// understood, or stamps are not finite or not strictly ascending (naming the first offending step).
  static TimeAxis parse(std::vector<double> values, const std::string& units, const std::string& calendar,
                        const std::string& origin);

  /// One of CF's calendars; standard where the name is empty. Throws UserError beginning with `origin`.
  static Calendar calendar_named(const std::string& name, const std::string& origin);

  /// A plain counter 0, 1, ….
  static TimeAxis counter(Index steps);

  /// Regular stamps from an ISO date: `step` in `units`' unit, e.g. regular(12, "days since 1970-01-01", 1).
  static TimeAxis regular(Index steps, const std::string& units, double first, double step);

  /// Monthly stamps, first of the month at midnight, from "1970-01", in days since that year's January.
  static TimeAxis monthly(Index steps, std::string_view first_month);

  [[nodiscard]] Index size() const { return static_cast<Index>(values_.size()); }
  [[nodiscard]] bool dated() const { return dated_; }
  /// Stamps in the axis's own units, as written to files.
  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  [[nodiscard]] const std::string& units() const { return units_; }        // "days since 1970-01-01", or "1"
  [[nodiscard]] const std::string& calendar() const { return calendar_; }  // CF's name; empty for a counter
  /// The shortest year that its calendar has.
  [[nodiscard]] Milliseconds shortest_year() const {
    return detail::days_in_year(days_) * detail::day_milliseconds;
  }
  /// "days", "hours", … or "1": the unit of a lead time.
  [[nodiscard]] std::string unit() const;

  [[nodiscard]] Spacing spacing() const { return spacing_; }
  /// The usual one on an axis of calendar days.
  [[nodiscard]] Milliseconds step_milliseconds() const { return step_; }
  [[nodiscard]] Index step_months() const { return step_; }
  [[nodiscard]] double step_count() const { return count_step_; }
  /// "1 month", "7 days", "5 minutes", "1 step", or "none".
  [[nodiscard]] std::string step_text() const;
  /// How far so many steps reach, short: "15 min", "3 h", "2 days", "2 months", "1 year"; empty for a counter
  /// or where the step is not known.
  [[nodiscard]] std::string span_text(Index steps) const;
  /// The same in seconds; none for months, which have no fixed length.
  [[nodiscard]] std::optional<double> span_seconds(Index steps) const;
  /// How many steps make up a time: "15 min", "1.5 h", "2 days", "1 week", "3 months". Throws UserError where
  /// the text is no time or no whole number of steps of this axis, 1 or more.
  [[nodiscard]] Index steps_in(std::string_view span) const;
  /// Whether the stamp so many steps behind step `from` is as far away as so many steps are: false across
  /// gaps, true behind the end of the axis.
  [[nodiscard]] bool spans(Index from, Index steps) const;
  /// Where stamps are missing on the regular axis.
  [[nodiscard]] const std::vector<Gap>& gaps() const { return gaps_; }
  /// What was guessed when the stamps were read, for the log; empty: nothing.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  /// False where some distance is not a whole number of steps.
  [[nodiscard]] bool regular() const { return regular_; }

  /// A stamp as ISO date text, no longer than the axis needs ("1986-08", "1986-08-15", "2012-03-01T06:30"),
  /// or the number.
  [[nodiscard]] std::string text(Index step) const;
  /// A dated axis's stamp.
  [[nodiscard]] Milliseconds stamp(Index step) const {
    require(dated_, "a stamp of a dated axis");
    return stamps_[static_cast<std::size_t>(step)];
  }

  /// What a stamp is in any units: milliseconds of a dated axis, else its number.
  [[nodiscard]] double instant(Index step) const {
    return dated_ ? static_cast<double>(stamp(step)) : values_[static_cast<std::size_t>(step)];
  }
  /// The same axis behind stamps at these ascending instants. Throws UserError unless they lie before it.
  [[nodiscard]] TimeAxis behind(std::span<const double> instants) const;

  /// The number that a moment has in this dated axis's units.
  [[nodiscard]] double to_value(Milliseconds stamp) const;

  /// The time of day of a stamp as a fraction in [0, 1), its day of the week, Monday 0 (counted on from
  /// 1970-01-01, a Thursday, in all calendars), and its month, January 1. Dated axes only.
  [[nodiscard]] double day_fraction(Index step) const;
  [[nodiscard]] int weekday(Index step) const;
  [[nodiscard]] int month(Index step) const;
  /// The part of its year that lies before a stamp, in [0, 1). Dated axes only.
  [[nodiscard]] double year_fraction(Index step) const;
  /// The day that a date names in the axis's calendar, "2019-02-05"; none where it names no day.
  [[nodiscard]] std::optional<Period> day_named(std::string_view date) const;

  /// The step a date names: the first whose stamp lies in the named period, or else the one whose own step of
  /// time holds the period's start. On a counter, the number itself. None where there is no such step.
  [[nodiscard]] std::optional<Index> find(std::string_view date) const;

  /// The same, but a UserError that gives the range of the axis and an example of the form.
  [[nodiscard]] Index step_of(std::string_view date) const;

  /// How many stamps lie before a date (before the first moment of the named period): the part that "ends
  /// before" it.
  [[nodiscard]] Index steps_before(std::string_view date) const;
  /// Whether more than a step lies between the last one and the date. Where it has no dates: never.
  [[nodiscard]] bool ends_before(std::string_view date) const;

  /// Stamps [first, first + count).
  [[nodiscard]] TimeAxis slice(Index first, Index count) const;

  /// The `count` stamps behind step `origin`: those of the axis while it has them, then continued at its step
  /// (monthly stamps stay in their place of the month). Throws UserError where the step is not known.
  [[nodiscard]] TimeAxis after(Index origin, Index count) const;

  /// The same axis with a stamp for every step that is missing in its gaps. `source` becomes the step of this
  /// axis that each one is, or -1. Throws UserError if the axis is not regular: its gaps have no whole number
  /// of steps.
  [[nodiscard]] TimeAxis filled(std::vector<Index>& source) const;

  /// Distance from stamp `from` to a value of this axis's units, in `unit()`.
  [[nodiscard]] double lead(Index from, double value) const {
    return value - values_[static_cast<std::size_t>(from)];
  }

 private:
  void detect_spacing();
  void detect_form();
  void detect_counter();
  bool detect_months();
  void detect_duration();
  bool detect_calendar();
  void undo_rounding();
  bool snap(double error, Milliseconds step);  // in milliseconds
  [[nodiscard]] Milliseconds even_step(double error) const;
  [[nodiscard]] double rounding() const;  // between neighbouring stamps if they are float32, else 0
  static Milliseconds typical_distance(std::vector<Milliseconds> distances);
  [[nodiscard]] Milliseconds next_stamp(Milliseconds last) const;

  enum class Form { month, day, minute, second };  // of stamps as text, each longer than the one before

  std::vector<double> values_;
  std::vector<Milliseconds> stamps_;  // empty for a counter
  std::string units_ = "1";
  std::string calendar_;
  Calendar days_ = Calendar::gregorian;
  std::string origin_ = "time axis";
  bool dated_ = false;
  Milliseconds reference_ = 0;
  double unit_ = 1;  // milliseconds
  Spacing spacing_ = Spacing::none;
  Form form_ = Form::day;
  Milliseconds step_ = 0;
  double count_step_ = 0;
  bool regular_ = true;
  bool month_end_ = false;
  std::vector<Gap> gaps_;
  std::optional<detail::CalendarRule> rule_;
  std::string remark_;
};

}  // namespace rossby
