#include "rossby/io/series_layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby::detail {
namespace {

enum class Axis { time, latitude, longitude, projected, vertical, other };

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
    if (letter == "Z" || file.text(*v, "positive") ||
        one_of(kind, {"depth", "height", "altitude", "air_pressure"}))
      return Axis::vertical;
  }
  if (one_of(name, {"time", "t", "valid_time"})) return Axis::time;
  if (one_of(name, {"lat", "latitude"})) return Axis::latitude;
  if (one_of(name, {"lon", "longitude"})) return Axis::longitude;
  if (one_of(name, {"x", "y", "rlat", "rlon", "i", "j"})) return Axis::projected;
  if (one_of(name, {"depth", "lev", "plev", "zlev", "height", "altitude", "pressure"})) return Axis::vertical;
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

/// Counts, say: integers that mean themselves.
bool is_count(const NetcdfFile& file, const NetcdfVariable& variable) {
  return (variable.type == NetcdfType::int32 || variable.type == NetcdfType::other_integer) &&
         !file.text(variable, "flag_meanings");
}

bool is_bounds(const NetcdfVariable& variable) {
  return variable.name.ends_with("_bnds") || variable.name.ends_with("_bounds");
}

/// The latitudes and longitudes of a curvilinear grid with these dimensions, in `layout`; false where it has
/// none. In `other` one that is of further dimensions, too.
bool find_curvilinear(const NetcdfFile& file, VariableLayout& layout, std::string& other) {
  // Grids may be staggered: those that the variable names are its own (CF-1.8, chapter 5).
  const std::string named = fmt::format(" {} ", file.text(*layout.variable, "coordinates").value_or(""));
  const auto find = [&](bool is_kind(const NetcdfFile&, const NetcdfVariable&)) -> const NetcdfVariable* {
    const NetcdfVariable* found = nullptr;
    for (const NetcdfVariable& v : file.variables()) {
      const std::size_t rank = v.dimensions.size();
      if (rank < 2 || v.type == NetcdfType::text || is_bounds(v) || !is_kind(file, v) ||
          v.dimensions[rank - 2].name != layout.dimension(layout.row).name ||
          v.dimensions[rank - 1].name != layout.dimension(layout.column).name)
        continue;
      if (rank > 2)
        other = v.name;
      else if (found == nullptr || named.find(fmt::format(" {} ", v.name)) != std::string::npos)
        found = &v;
    }
    return found;
  };
  layout.latitude = find(is_latitude);
  layout.longitude = find(is_longitude);
  return layout.latitude != nullptr && layout.longitude != nullptr;
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
  for (const NetcdfDimension& dimension : variable.dimensions) axes.push_back(axis_of(file, dimension));
  const auto time = std::find(axes.begin(), axes.end(), Axis::time) - axes.begin();
  std::vector<int> kept;  // dimensions that count: time first, others where longer than 1 or known
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const NetcdfDimension& dimension = variable.dimensions[d];
    // One node of several features is no rare thing: what is behind the time may be it.
    const bool spare = axes[d] == Axis::vertical ||
                       (axes[d] == Axis::other &&
                        (axes.size() > 3 || static_cast<std::ptrdiff_t>(d) < time ||
                         one_of(lower(dimension.name), {"ensemble", "member", "realization", "number"})));
    if (dimension.length != 1 || !spare) kept.push_back(static_cast<int>(d));
  }
  if (kept.size() == 1 && axes.size() > 1) {  // of a single node
    kept.push_back(static_cast<int>(axes.size()) - 1);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  }
  const auto axis = [&](std::size_t k) { return axes[static_cast<std::size_t>(kept[k])]; };
  const auto times = std::count(axes.begin(), axes.end(), Axis::time);
  const std::string right = "(time, lat, lon) or (time, node[, feature]) is right";
  for (const int d : kept)  // levels may be nodes or, behind these, features
    if (axes[static_cast<std::size_t>(d)] == Axis::vertical &&
        (kept.size() > 3 || (kept.size() == 3 && d != kept[2])))
      return refuse(fmt::format("has {} levels along {}: take one of them; {}",
                                variable.dimensions[static_cast<std::size_t>(d)].length,
                                variable.dimensions[static_cast<std::size_t>(d)].name, right));
  if (times == 0) return refuse(fmt::format("has no time axis: its dimensions are {}; {}", shape, right));
  if (times > 1 || kept.size() < 2 || kept.size() > 3)
    return refuse(fmt::format("has dimensions {}; {}", shape, right));
  VariableLayout layout;
  layout.variable = &variable;
  if (axis(0) != Axis::time)
    return refuse(fmt::format("has dimensions in the order {}; {}: transpose it", shape, right));
  layout.time = kept[0];
  const bool lat = std::count(axes.begin(), axes.end(), Axis::latitude) > 0;
  const bool lon = std::count(axes.begin(), axes.end(), Axis::longitude) > 0;
  if (lat || lon) {
    if (kept.size() != 3 || axis(1) != Axis::latitude || axis(2) != Axis::longitude)
      return refuse(fmt::format("has dimensions in the order {}; {}: transpose it", shape, right));
    layout.gridded = true;
    layout.row = kept[1];
    layout.column = kept[2];
    return layout;
  }
  if (kept.size() == 3) {
    layout.row = kept[1];
    layout.column = kept[2];
    std::string other;
    if (find_curvilinear(file, layout, other)) return layout;
    if (!other.empty())
      return refuse(fmt::format(
          "lies on a curvilinear grid {} whose {} has further dimensions; two are right", shape, other));
    layout.row = -1;
  }
  if (std::count(axes.begin(), axes.end(), Axis::projected) > 0)
    return refuse(fmt::format("lies on a projected grid {} without latitudes and longitudes of its cells; {}",
                              shape, right));
  layout.column = kept[1];
  if (kept.size() == 3) layout.feature = kept[2];
  layout.features = layout.length(layout.feature);
  return layout;
}

std::vector<VariableLayout> fitting(const NetcdfFile& file) {
  std::string reason;
  const auto all = [&](bool wanted(const NetcdfFile&, const NetcdfVariable&)) {
    std::vector<VariableLayout> layouts;
    for (const NetcdfVariable& variable : file.variables())
      if (wanted(file, variable) && !is_bounds(variable))
        if (const auto layout = fit(file, variable, reason)) layouts.push_back(*layout);
    return layouts;
  };
  std::vector<VariableLayout> layouts = all(is_data);
  // Beside real numbers that do not fit, integers are what belongs to them: quality, counts of observations.
  const bool other = std::any_of(file.variables().begin(), file.variables().end(), [&](const auto& v) {
    return is_data(file, v) && v.dimensions.size() > 1 && !is_bounds(v) &&
           std::any_of(v.dimensions.begin(), v.dimensions.end(),
                       [&](const auto& dimension) { return axis_of(file, dimension) == Axis::time; });
  });
  return layouts.empty() && !other ? all(is_count) : layouts;
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
    std::string reason, hint;
    Index largest = 0, of_time = 0;  // the best hint is why the largest variable does not fit
    for (const NetcdfVariable& variable : file.variables()) {
      if (!is_data(file, variable) && !is_count(file, variable)) continue;
      if (variable.dimensions.size() == 1 && axis_of(file, variable.dimensions[0]) == Axis::time &&
          variable.name != variable.dimensions[0].name)
        ++of_time;
      if (variable.dimensions.size() < 2 || variable.size() <= largest || fit(file, variable, reason))
        continue;
      largest = variable.size();
      hint = fmt::format("; {} {}", variable.name, reason);
    }
    if (hint.empty() && of_time > 1)
      hint = fmt::format(
          "; {} variables have the time as their only dimension: join those of all nodes to one "
          "of (time, node)",
          of_time);
    if (const auto groups = file.groups(); !groups.empty())
      hint += fmt::format("; what lies in its groups ({}) is not read: copy one to a file of its own",
                          fmt::join(groups, ", "));
    user_error("{}: no variable fits (time, lat, lon) or (time, node[, feature]){}", file.path(), hint);
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
      return (a < 0) == (b < 0) && (a < 0 || first.dimension(a).name == layout->dimension(b).name);
    };
    if (layout->gridded != first.gridded || !same(first.time, layout->time) ||
        !same(first.row, layout->row) || !same(first.column, layout->column))
      user_error("{}: variables {} and {} do not share their time and node dimensions", file.path(),
                 first.variable->name, name);
    if (std::count(names.begin(), names.end(), name) > 1)
      user_error("{}: variable {} is named twice", file.path(), name);
  }
  return layouts;
}

TimeAxis read_time(const NetcdfFile& file, const VariableLayout& layout) {
  const NetcdfDimension& dimension = layout.dimension(layout.time);
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
