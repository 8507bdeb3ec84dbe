#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby::detail {

/// Stamps that were dates written as numbers or text, as CF has them.
struct DatedNumbers {
  std::vector<double> values;
  std::string units;     // "days since 1970-01-01"
  std::string calendar;  // CF's name
  std::string remark;    // what was made of them, for the log
};

/// Numbers of a time axis without a reference date that are dates: YYYYMMDD, YYYYMMDD.f, YYYYMM, YYYYMMDDHH,
/// …HHMM, …HHMMSS and, where `units` say years, years and decimal years. By `units` ("day as %Y%m%d.%f",
/// "YYYYMM") or, where these are none, by the numbers themselves. None: plain numbers, and in `remark` what
/// they may be. Throws UserError beginning with `origin` where they look like dates and are none.
[[nodiscard]] std::optional<DatedNumbers> dates_in_numbers(const std::vector<double>& values,
                                                           const std::string& units,
                                                           const std::string& calendar,
                                                           const std::string& origin, std::string& remark);

/// What is wrong with stamps "since" a date that would reach further than data do, into the year 10,000 or
/// before −5,000; empty: nothing. Throws UserError beginning with `origin` where the numbers are dates
/// themselves (YYYYMMDD).
[[nodiscard]] std::string doubt_of_years(const std::vector<double>& values, const std::string& units,
                                         const TimeAxis& axis, const std::string& origin);

/// Stamps as text: ISO 8601, or WRF's 2020-01-31_18:00:00. Throws UserError beginning with `origin`.
[[nodiscard]] DatedNumbers dates_in_texts(const std::vector<std::string>& texts, const std::string& calendar,
                                          const std::string& origin);

}  // namespace rossby::detail
