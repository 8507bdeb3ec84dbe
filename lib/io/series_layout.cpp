#include "rossby/io/series_layout.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"

namespace rossby::detail {
namespace {

enum class Axis { time, latitude, longitude, projected, other };

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

bool one_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// CF-1.8, chapter 4: what an axis is follows from its units, standard_name or axis attribute; common names
/// serve where a file has none of these.
Axis axis_of(const NetcdfFile& file, const NetcdfDimension& dimension) {
  const std::string name = lower(dimension.name);
  if (const NetcdfVariable* v = coordinate(file, dimension)) {
    const std::string units = lower(file.text(*v, "units").value_or("")),
                      kind = file.text(*v, "standard_name").value_or("");
    const std::string letter = file.text(*v, "axis").value_or("");
    if (units.find(" since ") != std::string::npos || kind == "time" || letter == "T") return Axis::time;
    if (is_latitude(file, *v)) return Axis::latitude;
    if (is_longitude(file, *v)) return Axis::longitude;
    if (one_of(kind,
               {"projection_x_coordinate", "projection_y_coordinate", "grid_latitude", "grid_longitude"}))
      return Axis::projected;
  }
  if (one_of(name, {"time", "t", "valid_time"})) return Axis::time;
  if (one_of(name, {"lat", "latitude"})) return Axis::latitude;
  if (one_of(name, {"lon", "longitude"})) return Axis::longitude;
  if (one_of(name, {"x", "y", "rlat", "rlon", "i", "j"})) return Axis::projected;
  return Axis::other;
}

std::string dimension_text(const NetcdfVariable& variable) {
  std::vector<std::string_view> names;
  for (const auto& dimension : variable.dimensions) names.push_back(dimension.name);
  return fmt::format("({})", fmt::join(names, ", "));
}

bool is_data(const NetcdfFile& file, const NetcdfVariable& variable) {
  if (variable.type == NetcdfType::float32 || variable.type == NetcdfType::float64) return true;
  return variable.type != NetcdfType::text && file.number(variable, "scale_factor").has_value();
}

}  // namespace

bool is_latitude(const NetcdfFile& file, const NetcdfVariable& variable) {
  return one_of(lower(file.text(variable, "units").value_or("")),
                {"degrees_north", "degree_north", "degree_n", "degrees_n"}) ||
         file.text(variable, "standard_name") == "latitude";
}

bool is_longitude(const NetcdfFile& file, const NetcdfVariable& variable) {
  return one_of(lower(file.text(variable, "units").value_or("")),
                {"degrees_east", "degree_east", "degree_e", "degrees_e"}) ||
         file.text(variable, "standard_name") == "longitude";
}

const NetcdfVariable* coordinate(const NetcdfFile& file, const NetcdfDimension& dimension) {
  const NetcdfVariable* v = file.find(dimension.name);
  return v != nullptr && v->dimensions.size() == 1 && v->dimensions[0].name == dimension.name &&
                 v->type != NetcdfType::text
             ? v
             : nullptr;
}

std::optional<VariableLayout> fit(const NetcdfFile& file, const NetcdfVariable& variable,
                                  std::string& reason) {
  const auto refuse = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  if (variable.type == NetcdfType::text) return refuse("is text, not numbers");
  const std::string shape = dimension_text(variable);
  std::vector<Axis> axes;
  std::vector<int> kept;  // dimensions that count: time first, others where longer than 1 or named
  for (std::size_t d = 0; d < variable.dimensions.size(); ++d) {
    axes.push_back(axis_of(file, variable.dimensions[d]));
    if (axes.back() != Axis::other || variable.dimensions[d].length != 1 || variable.dimensions.size() <= 3)
      kept.push_back(static_cast<int>(d));
  }
  const auto axis = [&](std::size_t k) { return axes[static_cast<std::size_t>(kept[k])]; };
  const auto times = std::count(axes.begin(), axes.end(), Axis::time);
  const std::string right = "(time, lat, lon) or (time, node[, feature]) is right";
  if (times == 0) return refuse(fmt::format("has no time axis: its dimensions are {}; {}", shape, right));
  if (times > 1 || kept.size() < 2 || kept.size() > 3)
    return refuse(fmt::format("has dimensions {}; {}", shape, right));
  VariableLayout layout;
  layout.variable = &variable;
  if (axis(0) != Axis::time) return refuse(fmt::format("has dimensions in the order {}; {}", shape, right));
  if (std::count(axes.begin(), axes.end(), Axis::projected) > 0)
    return refuse(fmt::format("lies on a projected grid {}, which is not supported; {}", shape, right));
  const bool lat = std::count(axes.begin(), axes.end(), Axis::latitude) > 0;
  const bool lon = std::count(axes.begin(), axes.end(), Axis::longitude) > 0;
  if (lat || lon) {
    if (kept.size() != 3 || axis(1) != Axis::latitude || axis(2) != Axis::longitude)
      return refuse(fmt::format("has dimensions in the order {}; {}", shape, right));
    layout.gridded = true;
    layout.row = kept[1];
    layout.column = kept[2];
  } else {
    layout.column = kept[1];
    if (kept.size() == 3) layout.feature = kept[2];
    layout.features = layout.length(layout.feature);
  }
  return layout;
}

std::vector<VariableLayout> fitting(const NetcdfFile& file) {
  std::vector<VariableLayout> layouts;
  std::string reason;
  for (const NetcdfVariable& variable : file.variables()) {
    if (!is_data(file, variable) || variable.name.ends_with("_bnds") || variable.name.ends_with("_bounds"))
      continue;
    if (const auto layout = fit(file, variable, reason)) layouts.push_back(*layout);
  }
  return layouts;
}

std::vector<VariableLayout> choose(const NetcdfFile& file, const std::vector<std::string>& names) {
  const std::vector<VariableLayout> found = fitting(file);
  std::vector<std::string> candidates;
  for (const auto& layout : found) candidates.push_back(layout.variable->name);
  const std::string list = candidates.empty() ? "none" : fmt::format("{}", fmt::join(candidates, ", "));
  if (names.empty()) {
    if (found.size() == 1) return found;
    if (found.size() > 1)
      user_error("{}: several variables fit: {}; name one or more (data.variables)", file.path(), list);
    std::string reason, last;
    for (const NetcdfVariable& variable :
         file.variables())  // the best hint is why the largest variable does not fit
      if (variable.dimensions.size() >= 2 && is_data(file, variable) && !fit(file, variable, reason))
        last = fmt::format("; {} {}", variable.name, reason);
    user_error("{}: no variable fits (time, lat, lon) or (time, node[, feature]){}", file.path(), last);
  }
  std::vector<VariableLayout> layouts;
  for (const std::string& name : names) {
    const NetcdfVariable* variable = file.find(name);
    if (variable == nullptr) {
      const auto nearest = nearest_name(name, candidates);
      user_error("{}: no variable {}{}; variables that fit: {}", file.path(), name,
                 nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), list);
    }
    std::string reason;
    const auto layout = fit(file, *variable, reason);
    if (!layout) user_error("{}: variable {} {}", file.path(), name, reason);
    layouts.push_back(*layout);
    const VariableLayout& first = layouts.front();
    const auto same = [&](int a, int b) {
      return a < 0 || first.variable->dimensions[static_cast<std::size_t>(a)].name ==
                          variable->dimensions[static_cast<std::size_t>(b)].name;
    };
    if (layout->gridded != first.gridded || !same(0, 0) || !same(first.row, layout->row) ||
        !same(first.column, layout->column))
      user_error("{}: variables {} and {} do not share their time and node dimensions", file.path(),
                 first.variable->name, name);
    if (std::count(names.begin(), names.end(), name) > 1)
      user_error("{}: variable {} is named twice", file.path(), name);
  }
  return layouts;
}

TimeAxis read_time(const NetcdfFile& file, const VariableLayout& layout) {
  const NetcdfDimension& dimension = layout.variable->dimensions[0];
  const NetcdfVariable* time = coordinate(file, dimension);
  if (time == nullptr)
    user_error("{}: no time axis: dimension {} of {} has no coordinate variable {}({})", file.path(),
               dimension.name, layout.variable->name, dimension.name, dimension.name);
  if (dimension.length == 0)
    user_error("{}: variable {} has no time steps", file.path(), layout.variable->name);
  return TimeAxis::parse(file.read_all(*time), file.text(*time, "units").value_or(""),
                         file.text(*time, "calendar").value_or(""),
                         fmt::format("{}: variable {}", file.path(), time->name));
}

}  // namespace rossby::detail
