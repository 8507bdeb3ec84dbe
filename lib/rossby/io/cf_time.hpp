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

/// Milliseconds since a calendar's 1970-01-01T00:00 (for Julian dates the Gregorian one), without leap
/// seconds.
using Milliseconds = std::int64_t;

/// A named period of time: "1986", "1986-08", "1986-08-15", "2012-03-01T06", "2012-03-01T06:30",
/// "2012-03-01T06:30:15" (a blank may replace T, a final Z is allowed). None if the calendar has no such day.
struct Period {
  Milliseconds begin = 0;
  Milliseconds end = 0;  // first moment after it
  static std::optional<Period> parse(std::string_view text, Calendar calendar = Calendar::gregorian);
};

/// The time axis of a series after CF-1.8, chapter 4.4. It holds strictly ascending stamps
/// "days|hours|minutes|seconds since DATE" in one of CF's calendars: standard or gregorian,
/// proleptic_gregorian, julian, noleap or 365_day, all_leap or 366_day, 360_day (in which "months since" are
/// 30 days). Or it is a plain step counter. A value; const once built.
class TimeAxis {
 public:
  enum class Spacing {
    none,      // fewer than two stamps, nothing known
    duration,  // step_milliseconds()
    months,    // step_months(): stamps at the same place in each month
    calendar,  // days defined by the calendar: dekads, 8 days from 1 January, business days
    counter    // step_count(): plain numbers
  };

  /// A gap: `missing` steps are absent after step `after`.
  struct Gap {
    Index after = 0;
    Index missing = 0;
  };

  TimeAxis() = default;

  /// `origin` (file and variable) begins every message. Throws UserError if units or calendar are unknown, or
  /// if stamps are not finite or not strictly ascending (with the first offending step).
  static TimeAxis parse(std::vector<double> values, const std::string& units, const std::string& calendar,
                        const std::string& origin);

  /// Returns one of CF's calendars; `standard` if the name is empty. Throws UserError beginning with
  /// `origin`.
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
  /// The shortest year of the axis's calendar.
  [[nodiscard]] Milliseconds shortest_year() const { return detail::days_in_year(days_) * day_milliseconds; }
  /// "days", "hours", … or "1": the unit of a lead time.
  [[nodiscard]] std::string unit() const;

  [[nodiscard]] Spacing spacing() const { return spacing_; }
  /// The usual step, in milliseconds, on an axis of calendar days.
  [[nodiscard]] Milliseconds step_milliseconds() const { return step_; }
  [[nodiscard]] Index step_months() const { return step_; }
  [[nodiscard]] double step_count() const { return count_step_; }
  /// "1 month", "7 days", "5 minutes", "1 step", or "none".
  [[nodiscard]] std::string step_text() const;
  /// The length of so many steps, in short: "15 min", "3 h", "2 days", "2 months", "1 year". Empty for a
  /// counter or if the step is unknown.
  [[nodiscard]] std::string span_text(Index steps) const;
  /// The same in seconds; none for months, which have no fixed length.
  [[nodiscard]] std::optional<double> span_seconds(Index steps) const;
  /// The number of steps in a time span: "15 min", "1.5 h", "2 days", "1 week", "3 months". Throws UserError
  /// if the text is no time span, or not a whole number of steps of this axis, at least 1.
  [[nodiscard]] Index steps_in(std::string_view span) const;
  /// True if the stamp `steps` after `from` is as far away as that many steps are. False across gaps; true
  /// after the end of the axis.
  [[nodiscard]] bool spans(Index from, Index steps) const;
  /// Gaps of the regular axis.
  [[nodiscard]] const std::vector<Gap>& gaps() const { return gaps_; }
  /// Guesses made when the stamps were read, for the log; empty if there are none.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  /// False if some distance is not a whole number of steps.
  [[nodiscard]] bool regular() const { return regular_; }

  /// A stamp as ISO date text, as short as the axis allows ("1986-08", "1986-08-15", "2012-03-01T06:30"), or
  /// the number.
  [[nodiscard]] std::string text(Index step) const;
  /// A stamp of a dated axis.
  [[nodiscard]] Milliseconds stamp(Index step) const {
    require(dated_, "a stamp of a dated axis");
    return stamps_[static_cast<std::size_t>(step)];
  }

  /// A stamp independent of units: milliseconds on a dated axis, else its number.
  [[nodiscard]] double instant(Index step) const {
    return dated_ ? static_cast<double>(stamp(step)) : values_[static_cast<std::size_t>(step)];
  }
  /// The same axis with stamps at these ascending instants in front. Throws UserError unless they lie before
  /// it.
  [[nodiscard]] TimeAxis behind(std::span<const double> instants) const;

  /// The number of a moment in this dated axis's units.
  [[nodiscard]] double to_value(Milliseconds stamp) const;

  /// A stamp's time of day as a fraction in [0, 1), its day of the week with Monday 0 (counted from
  /// 1970-01-01, a Thursday, in all calendars), and its month with January 1. Dated axes only.
  [[nodiscard]] double day_fraction(Index step) const;
  [[nodiscard]] int weekday(Index step) const;
  [[nodiscard]] int month(Index step) const;
  /// The fraction of its year before a stamp, in [0, 1). Dated axes only.
  [[nodiscard]] double year_fraction(Index step) const;
  /// The day that a date such as "2019-02-05" names in the axis's calendar; none if it names no day.
  [[nodiscard]] std::optional<Period> day_named(std::string_view date) const;

  /// The step that a date names: the first whose stamp lies in the named period, or else the one whose time
  /// step contains the period's start. On a counter, the number itself. None if there is no such step.
  [[nodiscard]] std::optional<Index> find(std::string_view date) const;

  /// The same, but throws UserError with the range of the axis and an example of the form.
  [[nodiscard]] Index step_of(std::string_view date) const;

  /// The number of stamps before a date (before the first moment of the named period): the part that "ends
  /// before" it.
  [[nodiscard]] Index steps_before(std::string_view date) const;
  /// True if more than a step lies between the last stamp and the date. False on an axis without dates.
  [[nodiscard]] bool ends_before(std::string_view date) const;

  /// Stamps [first, first + count).
  [[nodiscard]] TimeAxis slice(Index first, Index count) const;

  /// The `count` stamps after step `origin`: the axis's own stamps, continued at its step (monthly stamps
  /// keep their place in the month). Throws UserError if the step is unknown.
  [[nodiscard]] TimeAxis after(Index origin, Index count) const;

  /// The same axis with a stamp for every step missing in its gaps. `source` becomes the step of this axis
  /// for each stamp, or -1. Throws UserError if the axis is not regular: its gaps are no whole number of
  /// steps.
  [[nodiscard]] TimeAxis filled(std::vector<Index>& source) const;

  /// Distance from stamp `from` to a value in this axis's units, in `unit()`.
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
