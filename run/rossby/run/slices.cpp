#include "rossby/run/slices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/node_values.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {
namespace {

std::size_t row_index(GlobalRow row) {
  return static_cast<std::size_t>(row.value);
}

/// Returns the variable's values at this rank's rows.
std::vector<double> row_values(const Domain& domain, const std::string& option, const std::string& variable) {
  std::vector<double> all, own;
  try {
    all = read_node_values(domain.info, variable, "");
  } catch (const UserError& error) {
    user_error("{}: {}", option, error.what());
  }
  for (const GlobalRow row : domain.rows)
    own.push_back(all[static_cast<std::size_t>(domain.file_node[row_index(row)])]);
  return own;
}

void add_times(Slices& slices, const TimeAxis& time, const std::string& by) {
  if (by.empty()) return;
  if (!time.dated())
    user_error(
        "--by {}: the time axis of the data has no dates. Leave --by out, or give the time axis "
        "units with a date, such as \"days since 1970-01-01\"",
        by);
  slices.time_kind = by;
  const auto hour_of = [&](Index step) {
    // Stamps may be rounded: half a second of slack.
    return std::min<int>(23, static_cast<int>(24 * (time.day_fraction(step) + 0.5 / 86400)));
  };
  if (by == "season") {
    slices.times = {"DJF", "MAM", "JJA", "SON"};
  } else if (by == "month" || by == "hour") {
    const int first = by == "month" ? 1 : 0, count = by == "month" ? 12 : 24;
    for (int k = first; k < first + count; ++k) slices.times.push_back(fmt::format("{:02}", k));
  } else {
    user_error("--by {} is unknown. Use season, month or hour", by);
  }
  for (Index step = 0; step < time.size(); ++step)
    slices.time_of_step.push_back(by == "hour"    ? hour_of(step)
                                  : by == "month" ? time.month(step) - 1
                                                  : time.month(step) % 12 / 3);
}

std::optional<std::vector<double>> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
    numbers.push_back(value);
    if (next == end) return numbers;
    if (*next != ',') return std::nullopt;
    at = next + 1;
  }
}

std::vector<std::uint8_t> inside_box(const Domain& domain, const std::string& option,
                                     const std::vector<double>& box) {
  if (box.size() != 4)
    user_error("{}: the box has {} numbers. Write lat_min,lat_max,lon_min,lon_max", option, box.size());
  if (box[0] > box[1]) user_error("{}: lat_min is above lat_max. Exchange these numbers", option);
  if (domain.latitude.empty() || domain.longitude.empty())
    user_error(
        "{}: the data have no latitudes and longitudes of their nodes. Write NAME=VARIABLE with a "
        "mask variable",
        option);
  const auto around = [](double degrees) {
    const double rest = std::fmod(degrees, 360.0);
    return rest < 0 ? rest + 360 : rest;
  };
  const double span = box[3] - box[2], width = span >= 360 ? 360 : around(span);
  std::vector<std::uint8_t> inside;
  for (const GlobalRow row : domain.rows) {
    const double lat = domain.latitude[row_index(row)], lon = domain.longitude[row_index(row)];
    inside.push_back(lat >= box[0] && lat <= box[1] && around(lon - box[2]) <= width);
  }
  return inside;
}

void add_region(Slices& slices, const Domain& domain, const std::string& text) {
  const std::string option = "--region " + text;
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    user_error("{}: not a region. Write NAME=lat_min,lat_max,lon_min,lon_max or NAME=VARIABLE", option);
  const std::string name = text.substr(0, equals), what = text.substr(equals + 1);
  if (std::count(slices.regions.begin(), slices.regions.end(), name) > 0)
    user_error("{}: two regions have this name. Give each region a different name", option);
  slices.regions.push_back(name);
  if (const auto box = numbers_of(what)) {
    slices.inside.push_back(inside_box(domain, option, *box));
    return;
  }
  auto& inside = slices.inside.emplace_back();
  for (const double value : row_values(domain, option, what))
    inside.push_back(!std::isnan(value) && value != 0);
}

}  // namespace

Slices make_slices(const Domain& domain, const std::string& weights, const std::string& by,
                   std::span<const std::string> regions) {
  Slices slices;
  if (weights == "area") {
    if (domain.latitude.empty())
      user_error(
          "--weights area: the data have no latitudes of their nodes. Give --weights VARIABLE with a "
          "variable of the data");
    for (const GlobalRow row : domain.rows)
      slices.weights.push_back(
          std::max(0.0, std::cos(domain.latitude[row_index(row)] * std::numbers::pi / 180)));
  } else if (!weights.empty()) {
    slices.weights = row_values(domain, "--weights " + weights, weights);
    for (const double w : slices.weights)
      if (!std::isfinite(w) || w < 0)
        user_error(
            "--weights {}: a forecast node has {}, but weights have to be numbers of at least 0. "
            "Correct this variable",
            weights, w);
  }
  add_times(slices, domain.info.time, by);
  for (const std::string& region : regions) add_region(slices, domain, region);
  return slices;
}

void expect_nodes(const Communicator& comm, const Slices& slices) {
  MpiReducer reducer(comm);
  std::vector<double> sums{std::accumulate(slices.weights.begin(), slices.weights.end(), 0.0)};
  for (const auto& inside : slices.inside)
    sums.push_back(static_cast<double>(std::count(inside.begin(), inside.end(), 1)));
  std::vector<double> weighted{slices.weights.empty() ? 0.0 : 1.0};
  reducer.sum(std::span<double>(sums));
  reducer.sum(std::span<double>(weighted));
  if (weighted[0] > 0 && !(sums[0] > 0))
    user_error("--weights: all weights are 0. Give a variable with weights above 0");
  for (std::size_t k = 1; k < sums.size(); ++k)
    if (sums[k] == 0)
      user_error(
          "--region {}: no node of the run lies in this region. Correct the limits or the mask of "
          "this region",
          slices.regions[k - 1]);
}

}  // namespace rossby
