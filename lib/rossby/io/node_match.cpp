#include "rossby/io/node_match.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "rossby/base/user_error.hpp"
#include "rossby/io/graph_match.hpp"
#include "rossby/io/series_coordinates.hpp"

namespace rossby {
namespace {

std::unordered_map<std::string, Index> places_of(const std::vector<std::string>& names, const std::string& of,
                                                 std::string_view key) {
  std::unordered_map<std::string, Index> places;
  for (const std::string& name : names)
    if (!places.emplace(name, static_cast<Index>(places.size())).second)
      user_error("{}: two nodes have the id \"{}\" ({}). Give each node its own id", of, name, key);
  return places;
}

}  // namespace

void check_axes(const ArrayFile& file, const SeriesInfo& series,
                const std::vector<NetcdfDimension>& dimensions, std::string_view key) {
  for (const bool rows : {true, false}) {
    const std::vector<double>& axis = rows ? series.lat : series.lon;
    const NetcdfVariable* v = detail::coordinate(file, dimensions[rows ? 0 : 1]);
    if (axis.empty()) continue;
    if (v == nullptr)
      user_error(
          "{}: dimension {} has no coordinate variable, so that its order cannot be compared with that of {} "
          "({}). Add the {} of the data to the file",
          file.path(), dimensions[rows ? 0 : 1].name, series.path, key, rows ? "latitudes" : "longitudes");
    std::vector<std::string> remarks;
    const std::vector<double> other = detail::read_degrees(file, *v, remarks);
    for (std::size_t k = 0; k < std::min(axis.size(), other.size()); ++k)
      if (std::abs(rows ? other[k] - axis[k] : std::remainder(other[k] - axis[k], 360.0)) > 1e-3)
        user_error(
            "{}: {} is {:.6g}, but in {} it is {:.6g}: the grids differ ({}). Interpolate the file to the "
            "grid of the data",
            file.path(), v->name, other[k], series.path, axis[k], key);
  }
}

std::vector<Index> places_of_nodes(const ArrayFile& file, const SeriesInfo& series,
                                   const NetcdfDimension& dimension, const std::string& name,
                                   std::string_view key) {
  std::string variable;
  const std::vector<std::string> theirs = detail::labels_of(file, dimension, variable);
  const std::vector<std::string> ours =
      theirs.empty() ? std::vector<std::string>() : node_ids(series, variable);
  const std::vector<std::string>& ids = ours.empty() ? series.node_labels : ours;
  std::vector<Index> matched(static_cast<std::size_t>(series.file_nodes), -1);
  if (theirs.empty() || ids.empty()) {
    if (dimension.length != series.file_nodes)
      user_error(
          "{}: variable {} has {} nodes, but {} has {} nodes, and there are no ids to match the nodes ({}). "
          "Use the same nodes, or add node ids to both files",
          file.path(), name, dimension.length, series.path, series.file_nodes, key);
    std::iota(matched.begin(), matched.end(), Index{0});
    return matched;
  }
  const auto places = places_of(theirs, file.path(), key);
  for (std::size_t i = 0; i < matched.size(); ++i)
    if (const auto place = places.find(ids[i]); place != places.end()) matched[i] = place->second;
  return matched;
}

bool matched_by_position(const ArrayFile& file, const SeriesInfo& series, const NetcdfDimension& dimension) {
  std::string variable;
  return !series.node_labels.empty() && detail::labels_of(file, dimension, variable).empty();
}

}  // namespace rossby
