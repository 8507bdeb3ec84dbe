// The time axis of a series: its coordinate, another one that the data name, or stamps as text.
#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/cf_time_units.hpp"
#include "rossby/io/dated_numbers.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby::detail {
namespace {

bool contains(std::string text, std::string_view part) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text.find(part) != std::string::npos;
}

bool lies_along(const NetcdfVariable& variable, const NetcdfDimension& dimension) {
  return !variable.dimensions.empty() && variable.dimensions[0].name == dimension.name;
}

bool is_stamps(const ArrayFile& file, const NetcdfVariable& variable, const NetcdfDimension& dimension) {
  return variable.type != NetcdfType::text && variable.dimensions.size() == 1 &&
         lies_along(variable, dimension) && contains(file.text(variable, "units").value_or(""), " since ");
}

/// True for one string, or one row of characters, per step.
bool is_texts(const NetcdfVariable& variable, const NetcdfDimension& dimension) {
  return variable.type == NetcdfType::text && variable.dimensions.size() <= 2 &&
         lies_along(variable, dimension);
}

const NetcdfVariable* named_stamps(const ArrayFile& file, const NetcdfVariable& data,
                                   const NetcdfDimension& dimension) {
  std::istringstream names(file.text(data, "coordinates").value_or(""));
  for (std::string name; names >> name;)
    if (const NetcdfVariable* v = file.find(name); v != nullptr && is_stamps(file, *v, dimension)) return v;
  return nullptr;
}

bool says_time(const ArrayFile& file, const NetcdfVariable& variable) {
  return file.text(variable, "standard_name") == "time" || file.text(variable, "axis") == "T";
}

struct LikelyStamps {
  const NetcdfVariable* best = nullptr;
  std::string rival;  // equally likely as the best; empty: none
};

/// The variable along a dimension that most likely holds the data's times: it says so, or the data name it,
/// or at least it does not say that it is another time (forecast_reference_time).
LikelyStamps likely_stamps(const ArrayFile& file, const NetcdfVariable& data,
                           const NetcdfDimension& dimension) {
  const std::string named = " " + file.text(data, "coordinates").value_or("") + " ";
  LikelyStamps stamps;
  int most = -1;
  for (const NetcdfVariable& v : file.variables()) {
    if (!is_stamps(file, v, dimension)) continue;
    const int likely = (says_time(file, v) ? 4 : 0) +
                       (named.find(" " + v.name + " ") != std::string::npos ? 2 : 0) +
                       (file.text(v, "standard_name").value_or("").empty() ? 1 : 0);
    if (likely == most && stamps.rival.empty()) stamps.rival = v.name;
    if (likely > most) stamps = {&v, ""};
    most = std::max(most, likely);
  }
  return stamps;
}

const NetcdfVariable* find_stamps(const ArrayFile& file, const NetcdfVariable& data,
                                  const NetcdfDimension& dimension) {
  const LikelyStamps stamps = likely_stamps(file, data, dimension);
  if (const NetcdfVariable* v = coordinate(file, dimension)) {
    // A coordinate that is another time (forecast_reference_time) yields to the data's time.
    const std::string role = file.text(*v, "standard_name").value_or("");
    const bool other = !role.empty() && role != "time" && stamps.best != nullptr &&
                       file.text(*stamps.best, "standard_name") == "time";
    return other ? stamps.best : v;
  }
  if (stamps.best != nullptr) return stamps.best;
  for (const NetcdfVariable& v : file.variables())
    if (is_texts(v, dimension) &&
        (v.name == dimension.name || contains(v.name, "time") || contains(v.name, "date")))
      return &v;
  return nullptr;
}

Stamps stamps_of(const DatedNumbers& dated, const std::string& origin, const std::string& variable) {
  return {dated.values, dated.units, dated.calendar, origin, variable};
}

}  // namespace

bool has_auxiliary_time(const ArrayFile& file, const NetcdfVariable& data, const NetcdfDimension& dimension) {
  if (named_stamps(file, data, dimension) != nullptr) return true;
  return std::any_of(file.variables().begin(), file.variables().end(), [&](const NetcdfVariable& v) {
    return is_stamps(file, v, dimension) && (says_time(file, v) || lower_case(v.name) == "time");
  });
}

Stamps read_stamps(const ArrayFile& file, const VariableLayout& layout, std::vector<std::string>& remarks) {
  const NetcdfDimension& dimension = layout.dimension(layout.time);
  const NetcdfVariable* time = find_stamps(file, *layout.variable, dimension);
  if (time == nullptr)
    user_error(
        "{}: there is no time axis: dimension {} of {} has no coordinate variable {}({}), and no other "
        "variable along this dimension has times or dates. Add a time variable with units such as \"days "
        "since 1970-01-01\"",
        file.path(), dimension.name, layout.variable->name, dimension.name, dimension.name);
  if (dimension.length == 0)
    user_error("{}: variable {} has no time steps. Choose a file with time steps", file.path(),
               layout.variable->name);
  const std::string origin = fmt::format("{}: variable {}", file.path(), time->name);
  const std::string units = file.text(*time, "units").value_or(""),
                    calendar = file.text(*time, "calendar").value_or("");
  const auto remark = [&](const std::string& text) {
    if (!text.empty()) remarks.push_back(fmt::format("{}: {}", time->name, text));
  };
  if (time->name != dimension.name) {
    const std::string rival = likely_stamps(file, *layout.variable, dimension).rival;
    remark(fmt::format("used as the times of dimension {}{}", dimension.name,
                       rival.empty() ? "" : fmt::format(" (guessed: {} is possible, too)", rival)));
  }
  if (time->type == NetcdfType::text) {
    const DatedNumbers dated = dates_in_texts(file.read_names(*time), calendar, origin);
    remark(dated.remark);
    return stamps_of(dated, origin, time->name);
  }
  std::vector<double> values = file.read_all(*time);
  if (time->type == NetcdfType::float32 && !contains(units, " since ") && !values.empty() &&
      values.front() >= 15'000'000 && values.front() < 1e14)
    user_error(
        "{}: its numbers ({:.0f} to {:.0f}) look like dates (YYYYMMDD) in float32, which cannot hold them. "
        "Store the dates as integers or double, or as days since a date",
        origin, values.front(), values.back());
  std::string doubt;
  if (const auto dated = dates_in_numbers(values, units, calendar, origin, doubt)) {
    remark(dated->remark);
    return stamps_of(*dated, origin, time->name);
  }
  remark(doubt);
  return {std::move(values), units, calendar, origin, time->name};
}

}  // namespace rossby::detail
