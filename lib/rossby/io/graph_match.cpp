#include "rossby/io/graph_match.hpp"

#include <cmath>
#include <unordered_map>

#include "rossby/base/user_error.hpp"
#include "rossby/io/array_file.hpp"

namespace rossby {
namespace {

/// Places by name; empty if a name occurs twice.
std::unordered_map<std::string, Index> places_of(const std::vector<std::string>& names) {
  std::unordered_map<std::string, Index> places;
  for (const std::string& name : names)
    if (!places.emplace(name, static_cast<Index>(places.size())).second) return {};
  return places;
}

/// Checks that nodes without ids at least have the graph's coordinates.
void check_coordinates(const GraphFile& graph, const std::string& path, const SeriesInfo& series) {
  constexpr double near = 0.01;  // degrees
  const std::vector<double> lat = graph.coordinate("node_lat"), lon = graph.coordinate("node_lon");
  if (lat.size() != series.node_lat.size() || lon.size() != series.node_lon.size()) return;
  for (std::size_t i = 0; i < lat.size(); ++i) {
    const double east = std::remainder(lon[i] - series.node_lon[i], 360.0);
    if (std::abs(lat[i] - series.node_lat[i]) <= near && std::abs(east) <= near) continue;
    if (std::isnan(lat[i]) || std::isnan(series.node_lat[i]) || std::isnan(east)) continue;
    user_error(
        "{}: node {} lies at {:.6g}, {:.6g}, but at {:.6g}, {:.6g} in {}. The graph has other nodes, or "
        "another order of nodes. Make the graph from this series with 'rossby data graph' (relation.file)",
        path, i, lat[i], lon[i], series.node_lat[i], series.node_lon[i], series.path);
  }
}

}  // namespace

std::vector<std::string> node_ids(const SeriesInfo& series, const std::string& variable) {
  if (variable.empty() || variable == series.label_name) return series.node_labels;
  const auto opened = ArrayFile::open(series.first_file());
  const ArrayFile& file = *opened;
  const NetcdfVariable* v = file.find(variable);
  if (v == nullptr || v->dimensions.empty() || v->dimensions[0].length != series.file_nodes ||
      v->dimensions.size() > (v->type == NetcdfType::text ? 2U : 1U))
    return {};
  return file.read_names(*v);
}

std::vector<Index> match_nodes(const GraphFile& graph, const std::string& path, const SeriesInfo& series,
                               std::string& remark) {
  const std::vector<std::string> ids = graph.ids();
  std::vector<std::string> names = ids.empty() ? ids : node_ids(series, graph.ids_of());
  if (names.empty() && !ids.empty()) names = series.node_labels;
  const auto places = places_of(names);
  if (ids.empty() || places.empty() || places_of(ids).empty()) {
    check_coordinates(graph, path, series);
    remark =
        fmt::format("relation  nodes of {} are matched by position, because {} has no distinct node ids\n",
                    path, ids.empty() || places_of(ids).empty() ? "the graph" : series.path);
    return {};
  }
  std::vector<Index> match;
  bool same = true;
  for (const std::string& id : ids) {
    const auto place = places.find(id);
    if (place == places.end())
      user_error(
          "{}: node {} is \"{}\", which is not a node of {} (variable {}). The graph has other nodes. Make "
          "the graph from this series with 'rossby data graph' (relation.file)",
          path, match.size(), id, series.path, graph.ids_of().empty() ? series.label_name : graph.ids_of());
    same = same && place->second == static_cast<Index>(match.size());
    match.push_back(place->second);
  }
  if (same) match.clear();
  if (!same)
    remark = fmt::format("relation  nodes of {} are in another order, and are matched by node ids\n", path);
  return match;
}

}  // namespace rossby
