#include "rossby/io/node_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/array_file.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/graph_match.hpp"
#include "rossby/io/node_match.hpp"
#include "rossby/io/series_coordinates.hpp"
#include "rossby/io/table_lines.hpp"

namespace rossby {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view other_file_key = "data.static_file";
constexpr std::size_t largest_table = std::size_t{1} << 31;

/// Relevant dimensions: dimensions of length 1 are dropped, unless a series of one node has no other.
std::vector<NetcdfDimension> long_dimensions(const NetcdfVariable& variable) {
  std::vector<NetcdfDimension> kept;
  for (const NetcdfDimension& dimension : variable.dimensions)
    if (dimension.length != 1) kept.push_back(dimension);
  if (kept.empty() && !variable.dimensions.empty()) kept.push_back(variable.dimensions.back());
  return kept;
}

bool planar(const SeriesInfo& series) {
  return series.gridded || series.curvilinear;
}

/// True if these are the series' node dimensions: the same lengths and, in its own file, the same names.
bool of_nodes(const SeriesInfo& series, const std::vector<NetcdfDimension>& dimensions, bool own_file) {
  if (!planar(series))
    return dimensions.size() == 1 && dimensions[0].length == series.file_nodes &&
           (!own_file || dimensions[0].name == series.column_name);
  return dimensions.size() == 2 && dimensions[0].length == series.n_lat &&
         dimensions[1].length == series.n_lon &&
         (!own_file || (dimensions[0].name == series.row_name && dimensions[1].name == series.column_name));
}

std::string shape_text(const std::vector<NetcdfDimension>& dimensions) {
  std::vector<std::string> texts;
  for (const NetcdfDimension& d : dimensions) texts.push_back(fmt::format("{} = {}", d.name, d.length));
  return fmt::format("({})", fmt::join(texts, ", "));
}

std::string wanted_text(const SeriesInfo& series) {
  return planar(series) ? fmt::format("({} = {}, {} = {})", series.row_name, series.n_lat, series.column_name,
                                      series.n_lon)
                        : fmt::format("({} = {})", series.column_name, series.file_nodes);
}

/// Maps values of another file's sensors to the series' sensors.
std::vector<double> by_ids(const ArrayFile& file, const SeriesInfo& series, const NetcdfDimension& dimension,
                           const std::vector<double>& values, const std::string& name) {
  std::vector<double> matched;
  for (const Index place : places_of_nodes(file, series, dimension, name, other_file_key))
    matched.push_back(place < 0 ? none : values[static_cast<std::size_t>(place)]);
  return matched;
}

std::vector<double> from_netcdf(const SeriesInfo& series, const std::string& name, const std::string& path) {
  const bool own_file = path.empty();
  const std::string_view key = own_file ? "data.static" : other_file_key;
  const std::unique_ptr<ArrayFile> opened = ArrayFile::open(own_file ? series.first_file() : path);
  const ArrayFile& file = *opened;
  const NetcdfVariable* v = file.find(name);
  if (v == nullptr) {
    std::vector<std::string> there;
    for (const NetcdfVariable& other : file.variables()) there.push_back(other.name);
    const auto nearest = nearest_name(name, there);
    user_error("{}: there is no variable {} ({}){}. Name a variable of this file", file.path(), name, key,
               nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  if (v->type == NetcdfType::text)
    user_error("{}: variable {} is text, not numbers ({}). Name a numeric variable", file.path(), name, key);
  const std::vector<NetcdfDimension> dimensions = long_dimensions(*v);
  const bool sensors_of_another = !own_file && !planar(series) && dimensions.size() == 1;
  if (!sensors_of_another && !of_nodes(series, dimensions, own_file))
    user_error(
        "{}: variable {} has dimensions {}, but needs the dimensions of the nodes, {} ({}). Name another "
        "variable",
        file.path(), name, shape_text(v->dimensions), wanted_text(series), key);
  if (planar(series) && !own_file) check_axes(file, series, dimensions, other_file_key);
  const std::vector<double> values = detail::read_numbers(file, *v);
  return sensors_of_another ? by_ids(file, series, dimensions[0], values, name) : values;
}

bool is_table(const std::string& path) {
  const std::string lower = lower_case(path);
  return lower.ends_with(".csv") || lower.ends_with(".txt");
}

}  // namespace

std::vector<double> read_node_values(const SeriesInfo& series, const std::string& name,
                                     const std::string& path) {
  if (name == "latitude" || name == "longitude") {
    const std::vector<double>& degrees = name == "latitude" ? series.node_lat : series.node_lon;
    if (degrees.empty())
      user_error("{}: the nodes have no {}. Remove this name from data.static", series.path, name);
    return degrees;
  }
  if (!is_table(path)) return from_netcdf(series, name, path);
  return parse_node_table(utf8_text(read_text(path, largest_table)), path, name,
                          [&](const std::string& column) {
                            std::vector<std::string> ids = node_ids(series, column);
                            if (ids.empty()) ids = series.node_labels;
                            return ids.empty() ? NodeNames(series.file_nodes) : NodeNames(ids, series.path);
                          });
}

bool matched_by_position(const SeriesInfo& series, const std::string& name, const std::string& path) {
  if (path.empty() || is_table(path) || planar(series)) return false;
  const std::unique_ptr<ArrayFile> file = ArrayFile::open(path);
  const NetcdfVariable* v = file->find(name);
  return v != nullptr && long_dimensions(*v).size() == 1 &&
         matched_by_position(*file, series, long_dimensions(*v)[0]);
}

std::vector<double> parse_node_table(std::string_view text, const std::string& path, const std::string& name,
                                     const std::function<NodeNames(const std::string& column)>& names_of) {
  std::vector<double> values;
  std::vector<Index> lines;
  std::vector<std::string> columns;
  std::size_t column = 0;
  std::optional<NodeNames> names;
  detail::for_table_lines(text, [&](Index line, std::span<const std::string_view> fields) {
    if (!names) {
      columns.assign(fields.begin(), fields.end());
      column = static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
      if (column == 0 || column == columns.size())
        user_error(
            "{}:{}: there is no column {} after the node ids in the first column. Choose among the columns "
            "{}",
            path, line, name, fmt::join(columns, ", "));
      names.emplace(names_of(columns.front()));
      values.assign(static_cast<std::size_t>(names->nodes()), none);
      lines.assign(values.size(), 0);
      return;
    }
    if (fields.size() != columns.size())
      user_error("{}:{}: the line has {} columns, but the first line names {}. Write one value per column",
                 path, line, fields.size(), columns.size());
    const Index node = names->find(std::string(fields[0]));
    if (node < 0) return;
    const auto i = static_cast<std::size_t>(node);
    if (lines[i] != 0)
      user_error("{}:{}: node {} was already given in line {}. Remove one of the two lines", path, line,
                 fields[0], lines[i]);
    lines[i] = line;
    if (fields[column].empty() || lower_case(std::string(fields[column])) == "nan") return;
    const auto value = detail::finite_number(fields[column]);
    if (!value)
      user_error(
          "{}:{}: \"{}\" in column {} is not a finite number. Write a finite number, or nothing if the "
          "value is missing",
          path, line, fields[column], name);
    values[i] = *value;
  });
  if (!names)
    user_error(
        "{}: the table is empty (data.static_file). Write a line of column names and a line for each node",
        path);
  if (std::all_of(lines.begin(), lines.end(), [](Index line) { return line == 0; }))
    user_error(
        "{}: no id in the first column, {}, is a node of the series (data.static_file). Write the node ids "
        "of the series into this column",
        path, columns.front());
  return values;
}

std::vector<std::string> node_variables(const SeriesInfo& series) {
  std::vector<std::string> names;
  const std::unique_ptr<ArrayFile> opened = ArrayFile::open(series.first_file());
  const ArrayFile& file = *opened;
  for (const NetcdfVariable& v : file.variables())
    if (v.type != NetcdfType::text && !v.dimensions.empty() && of_nodes(series, v.dimensions, true) &&
        v.name != series.lat_name && v.name != series.lon_name && v.name != series.label_name &&
        !detail::is_latitude(file, v) && !detail::is_longitude(file, v) && v.name != v.dimensions[0].name)
      names.push_back(v.name);
  return names;
}

std::string node_text(const SeriesInfo& series, Index file_node) {
  const auto i = static_cast<std::size_t>(file_node);
  if (i < series.node_labels.size()) return fmt::format("node \"{}\"", series.node_labels[i]);
  if (planar(series) && i < series.node_lat.size())
    return fmt::format("the cell at {:.6g}, {:.6g} degrees", series.node_lat[i], series.node_lon[i]);
  return fmt::format("node {}", file_node);
}

}  // namespace rossby
