#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby::detail {

/// Stamps in CF form that were dates written as numbers or text.
struct DatedNumbers {
  std::vector<double> values;
  std::string units;     // "days since 1970-01-01"
  std::string calendar;  // CF's name
  std::string remark;    // how they were interpreted, for the log
};

/// Interprets numbers of a time axis without a reference date as dates: YYYYMMDD, YYYYMMDD.f, YYYYMM,
/// YYYYMMDDHH, …HHMM, …HHMMSS and, if `units` say years, years and decimal years. The form follows from
/// `units` ("day as %Y%m%d.%f", "YYYYMM") or, without units, from the numbers themselves. None for plain
/// numbers; `remark` then says what they may be. Throws UserError beginning with `origin` if they look like
/// dates but are none.
[[nodiscard]] std::optional<DatedNumbers> dates_in_numbers(const std::vector<double>& values,
                                                           const std::string& units,
                                                           const std::string& calendar,
                                                           const std::string& origin, std::string& remark);

/// Says what is wrong with stamps "since" a date that reach implausibly far, beyond year 10,000 or before
/// −5,000; empty if nothing is. Throws UserError beginning with `origin` if the numbers are dates themselves
/// (YYYYMMDD).
[[nodiscard]] std::string doubt_of_years(const std::vector<double>& values, const std::string& units,
                                         const TimeAxis& axis, const std::string& origin);

/// Parses stamps written as text: ISO 8601, or WRF's 2020-01-31_18:00:00. Throws UserError beginning with
/// `origin`.
[[nodiscard]] DatedNumbers dates_in_texts(const std::vector<std::string>& texts, const std::string& calendar,
                                          const std::string& origin);

}  // namespace rossby::detail
