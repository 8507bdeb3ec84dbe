#include "rossby/io/series_coordinates.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <sstream>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"

namespace rossby::detail {
namespace {

constexpr double degrees_a_radian = 180 / std::numbers::pi;

struct Angle {
  std::string_view name;  // prefix
  double degrees;
};
constexpr Angle angles[] = {{"deg", 1},
                            {"\xC2\xB0", 1},
                            {"rad", degrees_a_radian},
                            {"gon", 0.9},
                            {"grad", 0.9},
                            {"arcmin", 1 / 60.0},
                            {"arc_min", 1 / 60.0},
                            {"arcsec", 1 / 3600.0},
                            {"arc_sec", 1 / 3600.0}};
constexpr Angle prefixes[] = {{"micro", 1e-6}, {"milli", 1e-3}};

/// Turns values that were never written or are marked as missing into NaN.
void drop_missing(const ArrayFile& file, const NetcdfVariable& variable, std::vector<double>& values) {
  std::vector<double> missing = file.numbers(variable, "_FillValue");
  for (const double mark : file.numbers(variable, "missing_value")) missing.push_back(mark);
  if (const auto fill = file.default_fill(variable); fill && missing.empty()) missing.push_back(*fill);
  const auto scale = file.number(variable, "scale_factor"), offset = file.number(variable, "add_offset");
  if (scale || offset)  // scaled like the values
    for (double& mark : missing) mark = mark * scale.value_or(1) + offset.value_or(0);
  for (double& value : values)
    if (std::find(missing.begin(), missing.end(), value) != missing.end())
      value = std::numeric_limits<double>::quiet_NaN();
}

/// The first step of a variable (time, row, column); it must equal the last step.
std::vector<double> read_constant(const ArrayFile& file, const NetcdfVariable& variable) {
  const Index steps = variable.dimensions[0].length, plane = steps == 0 ? 0 : variable.size() / steps;
  const Index count[] = {1, variable.dimensions[1].length, variable.dimensions[2].length};
  check_memory(2 * plane, sizeof(double), fmt::format("{}: variable {}", file.path(), variable.name));
  std::vector<double> first(static_cast<std::size_t>(plane)), last(first.size());
  if (plane == 0) return first;
  const Index begin[] = {0, 0, 0}, end[] = {steps - 1, 0, 0};
  file.read(variable, begin, count, first.data());
  file.read(variable, end, count, last.data());
  const bool same = std::equal(first.begin(), first.end(), last.begin(),
                               [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
  if (!same)
    user_error("{}: {} changes with time, but the grid must not move. Interpolate the data to a fixed grid",
               file.path(), variable.name);
  return first;
}

/// Doubts: numbers that cannot be degrees, or numbers without a unit that look like radians.
struct Doubt {
  std::string remark;
  bool impossible = false;
};

Doubt doubt(const ArrayFile& file, const NetcdfVariable& variable, const std::string& units,
            const std::vector<double>& degrees) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : degrees)
    if (!std::isnan(value)) low = std::min(low, value), high = std::max(high, value);
  if (low > high) return {};
  const double limit = is_latitude(file, variable) || variable.name.starts_with("lat") ? 90 : 720;
  if (low < -limit - 0.01 || high > limit + 0.01)
    return {fmt::format("{} runs from {:.6g} to {:.6g}, which is impossible for {}: these coordinates are "
                        "not used. Check "
                        "the unit \"{}\"",
                        variable.name, low, high, limit == 90 ? "latitudes in degrees" : "degrees",
                        units.empty() ? "none" : units),
            true};
  if (!units.empty() && units != "1") return {};
  const bool counts =
      std::all_of(degrees.begin(), degrees.end(), [](double x) { return x == std::round(x); });
  if (!counts && low >= -std::numbers::pi && high <= 2 * std::numbers::pi + 1e-6)
    return {
        fmt::format("{} has no unit and runs from {:.6g} to {:.6g}: read as degrees (guessed). If the "
                    "numbers are radians, set units = \"radian\"",
                    variable.name, low, high)};
  return {};
}

/// True if floats can be numbers of stations: whole, exact and different. Pandas writes them so.
bool are_ids(std::vector<double> values, bool single) {
  const double most = single ? 0x1p24 : 0x1p53;
  const auto is_id = [most](double value) { return std::abs(value) < most && value == std::round(value); };
  if (!std::all_of(values.begin(), values.end(), is_id)) return false;
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

}  // namespace

std::optional<double> degrees_in(std::string_view units) {
  double factor = 1;
  const auto [end, error] = std::from_chars(units.data(), units.data() + units.size(), factor);
  const auto number = static_cast<std::size_t>(end - units.data());
  if (error != std::errc()) factor = 1;
  if (error == std::errc() && number < units.size()) units.remove_prefix(number);
  while (units.starts_with(' ') || units.starts_with('*')) units.remove_prefix(1);
  std::string name(units);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (name.empty() || name == "1") return factor;
  std::string_view rest = name;
  for (const Angle& prefix : prefixes)
    if (rest.starts_with(prefix.name)) {
      rest.remove_prefix(prefix.name.size());
      factor *= prefix.degrees;
    }
  const bool backwards = direction_of(name) == 's' || direction_of(name) == 'w';
  for (const Angle& angle : angles)
    if (rest.starts_with(angle.name)) return factor * angle.degrees * (backwards ? -1 : 1);
  return std::nullopt;
}

char direction_of(std::string_view units) {
  const std::string name = lower_case(units);
  if (name == "degrees") return 0;  // would be read as degrees south
  for (const std::string_view prefix : {"degrees_", "degree_", "degrees", "degree"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view word = std::string_view(name).substr(prefix.size());
    for (const std::string_view way : {"north", "south", "east", "west"})
      if (word == way || word == way.substr(0, 1)) return way.front();
  }
  return 0;
}

std::vector<double> read_degrees(const ArrayFile& file, const NetcdfVariable& variable,
                                 std::vector<std::string>& remarks) {
  const std::string units = file.text(variable, "units").value_or("");
  const auto degrees = degrees_in(units);
  if (!degrees) {
    remarks.push_back(fmt::format(
        "{} has units \"{}\", which are not an angle: these coordinates are not used. Use degrees or radians",
        variable.name, units));
    return {};
  }
  std::vector<double> values =
      variable.dimensions.size() == 3 ? read_constant(file, variable) : file.read_all(variable);
  drop_missing(file, variable, values);
  for (double& value : values) {
    constexpr double filling = 1e30;  // fill value of NetCDF and others, if no attribute names it
    if (std::abs(value) > filling) value = std::numeric_limits<double>::quiet_NaN();
    if (*degrees != 1) value *= *degrees;
  }
  if (*degrees != 1)
    remarks.push_back(fmt::format("{} is converted from {} to degrees", variable.name, units));
  Doubt found = doubt(file, variable, units, values);
  if (!found.remark.empty()) remarks.push_back(std::move(found.remark));
  return found.impossible ? std::vector<double>{} : values;
}

std::vector<double> read_numbers(const ArrayFile& file, const NetcdfVariable& variable) {
  std::vector<double> values = file.read_all(variable);
  drop_missing(file, variable, values);
  for (double& value : values)
    if (!std::isfinite(value)) value = std::numeric_limits<double>::quiet_NaN();
  return values;
}

std::vector<double> node_coordinate(const ArrayFile& file, const VariableLayout& layout,
                                    bool is_kind(const ArrayFile&, const NetcdfVariable&), std::string& name,
                                    std::vector<std::string>& remarks) {
  const auto& dimension = layout.dimension(layout.column);
  std::istringstream names(file.text(*layout.variable, "coordinates").value_or("") + " " + name);
  for (std::string other; names >> other;) {
    const NetcdfVariable* v = file.find(other);
    if (v == nullptr || v->type == NetcdfType::text || v->dimensions.size() != 1 ||
        v->dimensions[0].name != dimension.name)
      continue;
    if (!is_kind(file, *v) && other != name) continue;
    name = other;
    return read_degrees(file, *v, remarks);
  }
  // Otherwise the only variable that says what it is.
  const NetcdfVariable* only = nullptr;
  for (const NetcdfVariable& v : file.variables()) {
    if (v.type == NetcdfType::text || v.dimensions.size() != 1 || v.dimensions[0].name != dimension.name ||
        !is_kind(file, v))
      continue;
    if (only != nullptr) return {};
    only = &v;
  }
  if (only == nullptr) return {};
  name = only->name;
  return read_degrees(file, *only, remarks);
}

std::vector<std::string> labels_of(const ArrayFile& file, const NetcdfDimension& dimension,
                                   std::string& variable) {
  for (const NetcdfVariable& v : file.variables()) {
    const bool text = v.type == NetcdfType::text;
    if (v.dimensions.empty() || v.dimensions[0].name != dimension.name ||
        v.dimensions.size() > (text ? 2 : 1) ||
        (v.name != dimension.name && file.text(v, "cf_role") != "timeseries_id"))
      continue;
    const bool floats = v.type == NetcdfType::float32 || v.type == NetcdfType::float64;
    if (floats && file.text(v, "units").value_or("1") != "1") continue;
    try {
      if (floats && !are_ids(file.read_all(v), v.type == NetcdfType::float32)) continue;
      std::vector<std::string> names = file.read_names(v);
      variable = v.name;
      return names;
    } catch (const UserError&) {  // of a type that is no name: the series is readable without it
      return {};
    }
  }
  return {};
}

}  // namespace rossby::detail
