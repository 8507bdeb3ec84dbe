// Choice of the variable that is the series, if none is named.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/auxiliary_variables.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby::detail {
namespace {

bool is_data(const ArrayFile& file, const NetcdfVariable& variable) {
  if (variable.type == NetcdfType::float32 || variable.type == NetcdfType::float64) return true;
  return variable.type != NetcdfType::text && file.has(variable, "scale_factor");
}

/// True for integers that are values themselves, such as counts.
bool is_count(const ArrayFile& file, const NetcdfVariable& variable) {
  return (variable.type == NetcdfType::int32 || variable.type == NetcdfType::other_integer) &&
         !file.text(variable, "flag_meanings");
}

/// Bytes are mostly flags and masks. They may be counts if there is no other variable.
bool is_bytes(const ArrayFile&, const NetcdfVariable& variable) {
  return variable.type == NetcdfType::int8;
}

/// CF-1.8, chapter 9.3.2: times (station, obs), different for each station.
std::string own_times_text(const ArrayFile& file) {
  for (const NetcdfVariable& time : file.variables()) {
    if (time.dimensions.size() != 2 ||
        file.text(time, "units").value_or("").find(" since ") == std::string::npos)
      continue;
    for (const NetcdfVariable& values : file.variables())
      if (&values != &time && is_data(file, values) && values.dimensions.size() == 2 &&
          values.dimensions[0].name == time.dimensions[0].name &&
          values.dimensions[1].name == time.dimensions[1].name)
        return fmt::format(
            "; each {} has its own times ({}({}, {})). Make a variable (time, node) with xarray: df = "
            "ds[[\"{}\", \"{}\"]].to_dataframe().dropna().reset_index(); df.set_index([\"{}\", "
            "\"{}\"])[\"{}\"].to_xarray().to_netcdf(\"regular.nc\")",
            time.dimensions[0].name, time.name, time.dimensions[0].name, time.dimensions[1].name, time.name,
            values.name, time.name, time.dimensions[0].name, values.name);
  }
  return "";
}

/// CF-1.8, chapter 9.3.3 and 9.3.4: samples of all stations one after the other.
std::string ragged_text(const ArrayFile& file) {
  const NetcdfVariable *counts = nullptr, *index = nullptr, *values = nullptr, *times = nullptr;
  for (const NetcdfVariable& v : file.variables()) {
    if (file.has(v, "sample_dimension")) counts = &v;
    if (file.has(v, "instance_dimension")) index = &v;
  }
  if (counts == nullptr && index == nullptr) return "";
  const std::string samples =
      counts != nullptr ? file.text(*counts, "sample_dimension").value_or("") : index->dimensions.at(0).name;
  for (const NetcdfVariable& v : file.variables()) {
    if (v.dimensions.size() != 1 || v.dimensions[0].name != samples || &v == index) continue;
    const bool is_stamp = file.text(v, "units").value_or("").find(" since ") != std::string::npos;
    (is_stamp ? times : values) = &v;
  }
  const std::string name = values == nullptr ? "VARIABLE" : values->name;
  const std::string stamp = times == nullptr ? "time" : times->name;
  const std::string node =
      counts != nullptr
          ? fmt::format("np.repeat(np.arange(ds.sizes[\"{}\"]), ds[\"{}\"].values)",
                        counts->dimensions.empty() ? "station" : counts->dimensions[0].name, counts->name)
          : fmt::format("ds[\"{}\"].values", index->name);
  return fmt::format(
      "; the stations lie one after the other along {} ({}, a ragged array). Make a variable (time, node) "
      "with xarray: at = pd.MultiIndex.from_arrays([ds[\"{}\"].values, {}], names=[\"time\", \"node\"]); "
      "pd.Series(ds[\"{}\"].values, at, name=\"{}\").to_xarray().to_netcdf(\"regular.nc\")",
      samples, counts != nullptr ? counts->name : index->name, stamp, node, name, name);
}

/// The remedy if dates lie in variables year, month, … of their own.
std::string split_dates_text(const ArrayFile& file) {
  const NetcdfVariable *year = nullptr, *month = nullptr;
  for (const NetcdfVariable& variable : file.variables()) {
    if (variable.dimensions.size() != 1) continue;
    const std::string name = lower_case(variable.name);
    if (name == "year") year = &variable;
    if (name == "month") month = &variable;
  }
  if (!year || !month || year->dimensions[0].name != month->dimensions[0].name) return "";
  const std::string& along = year->dimensions[0].name;
  return fmt::format(
      "; the dates lie in {}, {} and other variables. Join these variables with pandas and xarray: "
      "ds[\"{}\"] = pd.to_datetime({{\"year\": ds.{}, \"month\": ds.{}, \"day\": …}}); ds.rename({{\"{}\": "
      "\"time\"}})",
      year->name, month->name, along, year->name, month->name, along);
}

/// The reason for "no variable fits", and what to do.
std::string why_nothing_fits(const ArrayFile& file) {
  if (std::string ragged = ragged_text(file); !ragged.empty()) return ragged;
  if (std::string times = own_times_text(file); !times.empty()) return times;
  const std::set<std::string> auxiliary = auxiliary_variables(file);
  std::string reason, hint;
  std::vector<std::string> left_out;
  Index largest = 0, of_time = 0;  // the best hint is why the largest variable does not fit
  for (const NetcdfVariable& variable : file.variables()) {
    if (!is_data(file, variable) && !is_count(file, variable)) continue;
    const bool left = auxiliary.contains(variable.name);
    if (!left && variable.dimensions.size() == 1 && is_time(file, variable.dimensions[0]) &&
        variable.name != variable.dimensions[0].name)
      ++of_time;
    const bool fits = fit(file, variable, reason).has_value();
    if (left && fits) left_out.push_back(variable.name);
    if (left || fits || variable.dimensions.size() < 2 || variable.size() <= largest) continue;
    largest = variable.size();
    hint = fmt::format("; {} {}", variable.name, reason);
  }
  if (hint.empty() && of_time > 1)
    hint = fmt::format(
        "; {} variables have time as their only dimension. Join the variables of all nodes to one variable "
        "(time, node)",
        of_time);
  if (hint.empty() && of_time == 1)
    hint =
        "; the only variable over time has one value per step. Give this variable a dimension of one node, "
        "with xarray: ds.expand_dims(\"node\", axis=1). A trajectory, whose position changes with time, "
        "cannot be used";
  if (!left_out.empty())
    hint += fmt::format(
        "; {} would fit, but {} other variables (bounds, coordinates, flags, weights). To use such a "
        "variable, name it in data.variables",
        fmt::join(left_out, ", "), left_out.size() == 1 ? "describes" : "describe");
  if (const auto groups = file.groups(); !groups.empty())
    hint += fmt::format("; the groups of the file ({}) are not read: copy one group into a separate file",
                        fmt::join(groups, ", "));
  hint += split_dates_text(file);
  if (!file.unreadable().empty()) hint += "; " + file.unreadable().front();
  return hint.empty() ? ". Give a variable these dimensions with xarray, or use another file" : hint;
}

}  // namespace

std::vector<VariableLayout> fitting(const ArrayFile& file) {
  std::string reason;
  const std::set<std::string> auxiliary = auxiliary_variables(file);
  const auto sounds = [](const VariableLayout& layout) { return sounds_auxiliary(*layout.variable); };
  const auto all = [&](bool wanted(const ArrayFile&, const NetcdfVariable&)) {
    std::vector<VariableLayout> layouts;
    for (const NetcdfVariable& variable : file.variables())
      if (wanted(file, variable) && !auxiliary.contains(variable.name))
        if (const auto layout = fit(file, variable, reason)) layouts.push_back(*layout);
    // A name is a hint that counts only if there is another candidate.
    if (!std::all_of(layouts.begin(), layouts.end(), sounds)) std::erase_if(layouts, sounds);
    return layouts;
  };
  std::vector<VariableLayout> layouts = all(is_data);
  // If real numbers exist that do not fit, integers are their companions: quality, counts of observations.
  const bool other = std::any_of(file.variables().begin(), file.variables().end(), [&](const auto& v) {
    return is_data(file, v) && v.dimensions.size() > 1 && !auxiliary.contains(v.name) &&
           std::any_of(v.dimensions.begin(), v.dimensions.end(),
                       [&](const auto& dimension) { return is_time(file, dimension); });
  });
  if (layouts.empty() && !other) layouts = all(is_count);
  // Counts beside real numbers whose names sound auxiliary are candidates, too: the user decides.
  else if (!layouts.empty() && std::all_of(layouts.begin(), layouts.end(), sounds))
    for (const VariableLayout& count : all(is_count))
      if (!sounds(count)) layouts.push_back(count);
  return layouts.empty() && !other ? all(is_bytes) : layouts;
}

namespace {

/// Throws for a name that the file lacks.
[[noreturn]] void refuse_name(const ArrayFile& file, const std::string& name) {
  for (const std::string& left_out : file.unreadable())
    if (left_out.starts_with(fmt::format("{}: array {}:", file.path(), name))) user_error("{}", left_out);
  std::vector<std::string> candidates;
  for (const VariableLayout& layout : fitting(file)) candidates.push_back(layout.variable->name);
  const auto nearest = nearest_name(name, candidates);
  user_error("{}: there is no variable {}{}. Variables that fit: {}", file.path(), name,
             nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
             candidates.empty() ? "none" : fmt::format("{}", fmt::join(candidates, ", ")));
}

/// Returns the only variable that fits.
std::vector<VariableLayout> choose_alone(const ArrayFile& file) {
  std::vector<VariableLayout> found = fitting(file);
  if (found.size() == 1) return found;
  std::vector<std::string> candidates;
  for (const VariableLayout& layout : found) candidates.push_back(layout.variable->name);
  if (found.size() > 1)
    user_error("{}: several variables fit: {}. Name the variables to read in data.variables", file.path(),
               fmt::join(candidates, ", "));
  user_error("{}: no variable has the dimensions (time, lat, lon) or (time, node[, feature]){}", file.path(),
             why_nothing_fits(file));
}

}  // namespace

std::vector<VariableLayout> choose(const ArrayFile& file, const std::vector<std::string>& names) {
  if (names.empty()) return choose_alone(file);
  std::vector<VariableLayout> layouts;
  for (const std::string& name : names) {
    const NetcdfVariable* variable = file.find(name);
    if (variable == nullptr) refuse_name(file, name);
    std::string reason;
    const auto layout = fit(file, *variable, reason);
    if (!layout) user_error("{}: variable {} {}", file.path(), name, reason);
    layouts.push_back(*layout);
    const VariableLayout& first = layouts.front();
    const auto same = [&](int a, int b) {
      return (a < 0) == (b < 0) && (a < 0 || first.dimension(a).name == layout->dimension(b).name);
    };
    if (layout->gridded != first.gridded || !same(first.time, layout->time) ||
        !same(first.row, layout->row) || !same(first.column, layout->column))
      user_error(
          "{}: variables {} and {} do not share their time and node dimensions. Name variables with the "
          "same dimensions in data.variables",
          file.path(), first.variable->name, name);
    if (std::count(names.begin(), names.end(), name) > 1)
      user_error("{}: variable {} is named twice. Name each variable once in data.variables", file.path(),
                 name);
  }
  return layouts;
}

}  // namespace rossby::detail
