#include "rossby/io/series_layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/series_coordinates.hpp"

namespace rossby::detail {
namespace {

enum class Axis { time, latitude, longitude, projected, vertical, other };

bool one_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// CF-1.8, chapter 4: units, standard_name or axis attribute determine the kind of an axis; common names
/// count if a file has none of these.
Axis axis_of(const ArrayFile& file, const NetcdfDimension& dimension) {
  const std::string name = lower_case(dimension.name);
  if (const NetcdfVariable* v = coordinate(file, dimension)) {
    const std::string units = lower_case(file.text(*v, "units").value_or("")),
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
  if (one_of(name, {"time", "t", "valid_time", "date", "datetime", "times"})) return Axis::time;
  if (one_of(name, {"lat", "latitude"})) return Axis::latitude;
  if (one_of(name, {"lon", "longitude"})) return Axis::longitude;
  if (one_of(name, {"x", "y", "rlat", "rlon", "i", "j"})) return Axis::projected;
  if (one_of(name, {"depth", "lev", "level", "levels", "pressure_level", "isobaricinhpa", "plev", "zlev",
                    "height", "altitude", "pressure"}))
    return Axis::vertical;
  return Axis::other;
}

std::string dimension_text(const NetcdfVariable& variable) {
  std::vector<std::string_view> names;
  for (const auto& dimension : variable.dimensions) names.push_back(dimension.name);
  return fmt::format("({})", fmt::join(names, ", "));
}

/// Finds the latitudes and longitudes of a curvilinear grid with these dimensions and puts them in `layout`;
/// returns false if there are none. `other` gets one with further dimensions, if any.
bool find_curvilinear(const ArrayFile& file, VariableLayout& layout, std::string& other) {
  // Grids may be staggered: the variable's own coordinates are those that it names (CF-1.8, chapter 5).
  const std::string named = fmt::format(" {} ", file.text(*layout.variable, "coordinates").value_or(""));
  const auto find = [&](bool is_kind(const ArrayFile&, const NetcdfVariable&)) -> const NetcdfVariable* {
    const NetcdfVariable *found = nullptr, *at_all_times = nullptr;
    for (const NetcdfVariable& v : file.variables()) {
      const std::size_t rank = v.dimensions.size();
      if (rank < 2 || v.type == NetcdfType::text || v.name.ends_with("_bnds") ||
          v.name.ends_with("_bounds") || !is_kind(file, v) ||
          v.dimensions[rank - 2].name != layout.dimension(layout.row).name ||
          v.dimensions[rank - 1].name != layout.dimension(layout.column).name)
        continue;
      if (rank == 3 && v.dimensions[0].name == layout.dimension(layout.time).name)
        at_all_times = &v;
      else if (rank > 2)
        other = v.name;
      else if (found == nullptr || named.find(fmt::format(" {} ", v.name)) != std::string::npos)
        found = &v;
    }
    return found != nullptr ? found : at_all_times;
  };
  layout.latitude = find(is_latitude);
  layout.longitude = find(is_longitude);
  return layout.latitude != nullptr && layout.longitude != nullptr;
}

/// The reason why, by the names of a and b, (time, a, b) is not nodes and their features: the numbers would
/// not show the mistake. Empty if there is none.
std::string why_not_features(const std::string& a, const std::string& b) {
  const auto are_nodes = [](const std::string& name) {
    return one_of(
        name, {"node", "nodes", "station", "stations", "sensor", "sensors", "site", "sites", "cell", "cells",
               "location", "locations", "point", "points", "detector", "detectors", "gauge", "gauges"});
  };
  const auto are_features = [](const std::string& name) {
    return one_of(name, {"feature", "features", "channel", "channels", "variable", "variables", "band",
                         "bands", "lead", "quantile", "step"});
  };
  const auto are_of_a_grid = [](const std::string& name) {
    return one_of(name, {"row", "rows", "col",     "cols",        "column",    "columns", "ny",
                         "nx",  "nlat", "nlon",    "south_north", "west_east", "yc",      "xc",
                         "nj",  "ni",   "eta_rho", "xi_rho",      "line",      "pixel"});
  };
  if ((are_nodes(b) && !are_nodes(a)) || (are_features(a) && !are_features(b)))
    return fmt::format("has nodes along {} and features along {}, in the wrong order. Transpose the variable",
                       b, a);
  if (are_of_a_grid(a) && are_of_a_grid(b))
    return fmt::format(
        "lies on a grid of {} and {} without latitudes and longitudes. Add these coordinates, or turn cells "
        "into nodes with xarray: ds.stack(node=(\"{}\", \"{}\")).reset_index(\"node\")",
        a, b, a, b);
  return "";
}

/// True for an ensemble dimension.
bool is_member(const NetcdfDimension& dimension) {
  return one_of(lower_case(dimension.name),
                {"ensemble", "member", "members", "realization", "number", "ens"});
}

/// True for a dimension of stations: the file says that it holds their time series, or they have names or
/// latitudes.
bool is_stations(const ArrayFile& file, const NetcdfDimension& dimension) {
  if (lower_case(file.title("featureType").value_or("")) == "timeseries") return true;
  return std::any_of(file.variables().begin(), file.variables().end(), [&](const NetcdfVariable& v) {
    return !v.dimensions.empty() && v.dimensions[0].name == dimension.name &&
           (file.text(v, "cf_role") == "timeseries_id" || (v.dimensions.size() == 1 && is_latitude(file, v)));
  });
}

}  // namespace

bool is_time(const ArrayFile& file, const NetcdfDimension& dimension) {
  return axis_of(file, dimension) == Axis::time;
}

namespace {

/// Without standard_name: an angle whose long_name says so, or whose name is used only for such variables.
/// Rotated coordinates do not count.
bool is_called(const ArrayFile& file, const NetcdfVariable& variable, const std::string& units,
               std::string_view kind, std::initializer_list<std::string_view> names) {
  if (file.has(variable, "standard_name") || direction_of(units) != 0) return false;
  if (one_of(lower_case(variable.name), names)) return true;  // of any unit: read_degrees reports a wrong one
  return !units.empty() && degrees_in(units) &&
         lower_case(file.text(variable, "long_name").value_or("")) == kind;
}

}  // namespace

bool is_latitude(const ArrayFile& file, const NetcdfVariable& variable) {
  const std::string units = file.text(variable, "units").value_or("");
  const char direction = direction_of(units);
  return direction == 'n' || direction == 's' || file.text(variable, "standard_name") == "latitude" ||
         is_called(file, variable, units, "latitude",
                   {"lat", "latitude", "clat", "nav_lat", "xlat", "tlat", "lat_rho"});
}

bool is_longitude(const ArrayFile& file, const NetcdfVariable& variable) {
  const std::string units = file.text(variable, "units").value_or("");
  const char direction = direction_of(units);
  return direction == 'e' || direction == 'w' || file.text(variable, "standard_name") == "longitude" ||
         is_called(file, variable, units, "longitude",
                   {"lon", "longitude", "clon", "nav_lon", "xlong", "tlong", "tlon", "lon_rho"});
}

const NetcdfVariable* coordinate(const ArrayFile& file, const NetcdfDimension& dimension) {
  const NetcdfVariable* v = file.find(dimension.name);
  return v != nullptr && v->dimensions.size() == 1 && v->dimensions[0].name == dimension.name &&
                 v->type != NetcdfType::text
             ? v
             : nullptr;
}

std::optional<VariableLayout> fit(const ArrayFile& file, const NetcdfVariable& variable,
                                  std::string& reason) {
  const auto refuse = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  if (variable.type == NetcdfType::text) return refuse("is text, not numbers. Choose a numeric variable");
  const std::string shape = dimension_text(variable);
  std::vector<Axis> axes;
  for (const NetcdfDimension& dimension : variable.dimensions) axes.push_back(axis_of(file, dimension));
  if (std::count(axes.begin(), axes.end(), Axis::time) == 0)
    for (std::size_t d = 0; d < axes.size(); ++d)
      if (has_auxiliary_time(file, variable, variable.dimensions[d])) axes[d] = Axis::time;
  const auto time = std::find(axes.begin(), axes.end(), Axis::time) - axes.begin();
  std::vector<int> kept;  // relevant dimensions: time first, others if longer than 1 or known
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const NetcdfDimension& dimension = variable.dimensions[d];
    // A single node with several features is common: the dimension after time may be the features.
    const bool spare = axes[d] == Axis::vertical ||
                       (axes[d] == Axis::other &&
                        (axes.size() > 3 || static_cast<std::ptrdiff_t>(d) < time || is_member(dimension)));
    if (dimension.length != 1 || !spare) kept.push_back(static_cast<int>(d));
  }
  if (kept.size() == 1 && axes.size() > 1) {  // a single node
    const int last = static_cast<int>(axes.size()) - 1;
    kept.push_back(kept[0] == last ? 0 : last);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  }
  const auto axis = [&](std::size_t k) { return axes[static_cast<std::size_t>(kept[k])]; };
  const auto times = std::count(axes.begin(), axes.end(), Axis::time);
  const std::string right = "expected dimensions are (time, lat, lon) or (time, node[, feature])";
  for (const int d : kept)  // levels may be nodes, or features after the nodes
    if (axes[static_cast<std::size_t>(d)] == Axis::vertical &&
        (kept.size() > 3 || (kept.size() == 3 && d != kept[2])))
      return refuse(fmt::format("has {} levels along {}. Select one level with ds.isel of xarray; {}",
                                variable.dimensions[static_cast<std::size_t>(d)].length,
                                variable.dimensions[static_cast<std::size_t>(d)].name, right));
  if (times == 0) return refuse(fmt::format("has no time axis: its dimensions are {}; {}", shape, right));
  for (const int d : kept)
    if (is_member(variable.dimensions[static_cast<std::size_t>(d)]))
      return refuse(fmt::format(
          "has {} members along {}. Select one member with ds.isel of xarray, or compute the mean; {}",
          variable.dimensions[static_cast<std::size_t>(d)].length,
          variable.dimensions[static_cast<std::size_t>(d)].name, right));
  if (times > 1 || kept.size() < 2 || kept.size() > 3)
    return refuse(fmt::format("has dimensions {}; {}", shape, right));
  VariableLayout layout;
  layout.variable = &variable;
  if (axis(0) == Axis::other && axis(1) == Axis::time && (kept.size() == 2 || axis(2) == Axis::other) &&
      is_stations(file, variable.dimensions[static_cast<std::size_t>(kept[0])])) {
    layout.time = kept[1];
    layout.column = kept[0];
    if (kept.size() == 3) layout.feature = kept[2];
    layout.features = layout.length(layout.feature);
    return layout;
  }
  if (axis(0) != Axis::time)
    return refuse(fmt::format("has dimensions in the order {}; {}. Transpose the variable", shape, right));
  layout.time = kept[0];
  const bool lat = std::count(axes.begin(), axes.end(), Axis::latitude) > 0;
  const bool lon = std::count(axes.begin(), axes.end(), Axis::longitude) > 0;
  if (lat || lon) {
    if (kept.size() != 3 || axis(1) != Axis::latitude || axis(2) != Axis::longitude)
      return refuse(fmt::format("has dimensions in the order {}; {}. Transpose the variable", shape, right));
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
          "lies on a curvilinear grid {} whose {} has further dimensions. Write this coordinate with two "
          "dimensions",
          shape, other));
    layout.row = -1;
    if (const std::string why = why_not_features(lower_case(layout.dimension(kept[1]).name),
                                                 lower_case(layout.dimension(kept[2]).name));
        !why.empty())
      return refuse(fmt::format("{}; {}", why, right));
  }
  if (std::count(axes.begin(), axes.end(), Axis::projected) > 0)
    return refuse(fmt::format(
        "lies on a projected grid {} without latitudes and longitudes of the cells. Add variables lat "
        "and lon over both dimensions; {}",
        shape, right));
  layout.column = kept[1];
  if (kept.size() == 3) layout.feature = kept[2];
  layout.features = layout.length(layout.feature);
  return layout;
}

}  // namespace rossby::detail
