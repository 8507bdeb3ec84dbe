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
  void look_at(double value);  // NaN if missing

  /// Parts to combine values of several ranks: sum the first, take the maximum of the second.
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

// Lines of both `rossby data inspect` and `rossby train`; each ends with a line break.

/// First and last stamp, step, gaps.
[[nodiscard]] std::string time_lines(const SeriesInfo& info);
/// A variable's name, units, range and share missing. `summary` has seen the values described by `of` ("all
/// values", "the training part"). `role` says what a variable that is not forecast is: "input".
[[nodiscard]] std::string variable_lines(const SeriesVariable& variable, const ValueSummary& summary,
                                         std::string_view of, std::string_view role = "");
/// Conversions, guesses and suspicious findings.
[[nodiscard]] std::string remark_lines(const SeriesInfo& info);

/// "; " and the reason why coordinates of the file are not used; empty if it has none.
[[nodiscard]] std::string why_no_coordinates(const SeriesInfo& info);

/// Returns the output of `rossby data inspect FILE...` for a series in one or more files, named as in
/// data.file. For each variable: shape, units, range, share missing and never-observed nodes. Also the time
/// axis (first, last, step, gaps), edges, and memory of the series per rank at 1, 2, 4, 8 and 16 ranks. Empty
/// `variables`: all that fit. Values equal to `null_value` count as missing. Values are read in pieces of
/// bounded size. For a file with a graph and no series: nodes, edges, weights. Throws UserError as
/// SeriesFile::open does.
[[nodiscard]] std::string inspect_series(std::span<const std::string> entries,
                                         std::span<const std::string> variables = {},
                                         std::optional<double> null_value = {});
[[nodiscard]] std::string inspect_series(const std::string& path, std::span<const std::string> variables = {},
                                         std::optional<double> null_value = {});

}  // namespace rossby
