#include "rossby/io/writer_layout.hpp"

#include <map>

#include "rossby/base/user_error.hpp"

namespace rossby {

Index SeriesLayout::features() const {
  Index sum = 0;
  for (const auto& variable : variables) sum += variable.features;
  return sum;
}

std::vector<Index> SeriesLayout::space() const {
  if (gridded) return {std::ssize(lat), std::ssize(lon)};
  return rows > 0 ? std::vector<Index>{rows, columns} : std::vector<Index>{nodes};
}

SeriesLayout layout_of(const SeriesInfo& info) {
  SeriesLayout layout;
  layout.gridded = info.gridded;
  layout.nodes = info.file_nodes;
  layout.variables = info.variables;
  layout.time = info.time;
  layout.title = info.title;
  layout.time_name = info.time_name;
  layout.node_labels = info.node_labels;
  layout.label_name = info.label_name;
  if (!info.row_name.empty()) layout.row_name = info.row_name;
  (info.row_name.empty() ? layout.node_name : layout.column_name) = info.column_name;
  if (info.gridded) {
    layout.lat = info.lat;
    layout.lon = info.lon;
    // A grid without coordinate variables is numbered.
    for (Index i = static_cast<Index>(layout.lat.size()); i < info.n_lat; ++i)
      layout.lat.push_back(static_cast<double>(i));
    for (Index i = static_cast<Index>(layout.lon.size()); i < info.n_lon; ++i)
      layout.lon.push_back(static_cast<double>(i));
  } else {
    if (info.curvilinear) layout.rows = info.n_lat, layout.columns = info.n_lon;
    layout.node_lat = info.node_lat;
    layout.node_lon = info.node_lon;
    layout.lat_name = info.lat_name;
    layout.lon_name = info.lon_name;
  }
  return layout;
}

void check_layout(const SeriesLayout& layout, const std::string& path) {
  require(!layout.variables.empty(), "a series file has a variable");
  if (layout.gridded) {
    require(layout.nodes == static_cast<Index>(layout.lat.size() * layout.lon.size()),
            "a grid has |lat|·|lon| nodes");
    require(layout.land_mask.empty() || static_cast<Index>(layout.land_mask.size()) == layout.nodes,
            "the land mask has all nodes");
  } else {
    require(layout.rows == 0 || layout.nodes == layout.rows * layout.columns,
            "a grid has rows·columns nodes");
    require(layout.node_labels.empty() || static_cast<Index>(layout.node_labels.size()) == layout.nodes,
            "all nodes have labels, or none");
    for (const auto* list : {&layout.node_lat, &layout.node_lon})
      require(list->empty() || static_cast<Index>(list->size()) == layout.nodes,
              "coordinates have all nodes");
  }
  for (const auto& variable : layout.variables)
    require(!layout.planar() || variable.features == 1, "a grid variable has one feature");
  if (layout.time.size() == 0 || layout.nodes == 0)
    user_error(
        "{}: a series of {} steps and {} nodes cannot be written. Ask for at least one step and one node",
        path, layout.time.size(), layout.nodes);
}

SeriesLayout with_own_names(SeriesLayout layout, std::set<std::string> taken) {
  for (const SeriesVariable& variable : layout.variables) {
    taken.insert(variable.name);
    if (!layout.quantiles.empty()) taken.insert({"quantile", variable.name + "_quantiles"});
    if (!layout.members.empty()) taken.insert({"realization", "member", variable.name + "_members"});
  }
  const auto take = [&](std::string& name, const char* usual) {
    if (taken.insert(name).second) return;
    name = usual;
    taken.insert(name);
  };
  take(layout.time_name, "time");
  if (layout.planar()) {
    take(layout.row_name, "lat");
    take(layout.column_name, "lon");
  } else {
    const bool labelled_by_dimension = layout.label_name == layout.node_name;
    take(layout.node_name, "node");
    if (labelled_by_dimension)
      layout.label_name = layout.node_name;
    else if (!layout.node_labels.empty() && !taken.insert(layout.label_name).second)
      layout.node_labels.clear();
  }
  if (!layout.node_lat.empty()) {
    take(layout.lat_name, "node_lat");
    take(layout.lon_name, "node_lon");
  }
  std::map<std::string, Index> features;  // dimensions shared by variables
  for (SeriesVariable& variable : layout.variables) {
    if (variable.features == 1 || variable.feature_name.empty()) continue;
    const auto known = features.find(variable.feature_name);
    if (known != features.end() ? known->second == variable.features
                                : taken.insert(variable.feature_name).second)
      features[variable.feature_name] = variable.features;
    else
      variable.feature_name.clear(), variable.feature_labels.clear();
  }
  return layout;
}

}  // namespace rossby
