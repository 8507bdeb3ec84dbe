#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rossby/base/index.hpp"
#include "rossby/io/suspect_values.hpp"

namespace rossby {

struct SeriesInfo;
struct SeriesVariable;

/// Counts, range and mean of one variable's values.
class ValueSummary {
 public:
  void look_at(double value);  // NaN where missing

  /// For values that several ranks hold: to be summed, and to be maximised.
  [[nodiscard]] std::span<double> sums() { return sums_; }
  [[nodiscard]] std::span<double> extremes() { return extremes_; }
  [[nodiscard]] SuspectValues& suspects() { return suspects_; }
  [[nodiscard]] const SuspectValues& suspects() const { return suspects_; }

  [[nodiscard]] double values() const { return sums_[0]; }
  [[nodiscard]] double finite() const { return sums_[1]; }
  [[nodiscard]] double mean() const { return sums_[2] / sums_[1]; }
  [[nodiscard]] double low() const { return -extremes_[0]; }
  [[nodiscard]] double high() const { return extremes_[1]; }

 private:
  static constexpr double lowest = -1.7976931348623157e308;
  std::array<double, 3> sums_{};                       // values, those that are finite, their sum
  std::array<double, 2> extremes_ = {lowest, lowest};  // −low, high
  SuspectValues suspects_;
};

// Lines that `rossby data inspect` and `rossby train` have in common; each ends with a line break.

/// First and last stamp, step, gaps.
[[nodiscard]] std::string time_lines(const SeriesInfo& info);
/// A variable: name, units, range and share missing of the values that `summary` has seen, which are those
/// `of` ("all values", "the training part"). `role`: what it is if it is not forecast, "input".
[[nodiscard]] std::string variable_lines(const SeriesVariable& variable, const ValueSummary& summary,
                                         std::string_view of, std::string_view role = "");
/// What was converted, guessed or looks wrong.
[[nodiscard]] std::string remark_lines(const SeriesInfo& info);

/// "; " and why coordinates of the file are not used; empty if it has none.
[[nodiscard]] std::string why_no_coordinates(const SeriesInfo& info);

/// What `rossby data inspect FILE...` prints of a series in one or more files, named as data.file has them:
/// for each variable shape, units, range, share missing and never-observed nodes; the time axis (first, last,
/// step, gaps); edges; memory of the series a rank at 1, 2, 4, 8 and 16 ranks. `variables` empty: all that
/// fit. Values that equal `null_value` count as missing. Values are read in pieces of bounded size. Of a file
/// with a graph and no series: nodes, edges, weights. Throws UserError as SeriesFile::open does.
[[nodiscard]] std::string inspect_series(std::span<const std::string> entries,
                                         std::span<const std::string> variables = {},
                                         std::optional<double> null_value = {});
[[nodiscard]] std::string inspect_series(const std::string& path, std::span<const std::string> variables = {},
                                         std::optional<double> null_value = {});

}  // namespace rossby
