#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// Contents of a series file to write, without its values.
struct SeriesLayout {
  bool gridded = false;
  std::vector<double> lat, lon;            // gridded: axes in degrees; cell (i, j) is node i·|lon| + j
  Index rows = 0, columns = 0;             // of curvilinear grids, cells numbered in the same way; 0: sensors
  Index nodes = 0;                         // number of sensors (grids: rows · columns)
  std::vector<double> node_lat, node_lon;  // sensors, curvilinear: degrees, one per node; empty: not written
  // Names of dimensions and coordinates; `row` for grids only.
  std::string time_name = "time", row_name = "lat", column_name = "lon", node_name = "node",
              lat_name = "node_lat", lon_name = "node_lon";
  std::vector<std::string> node_labels;   // sensors: names, or integers if all are; empty: not written
  std::string label_name = "node";        // variable of these labels
  std::vector<std::uint8_t> land_mask;    // grids: 1 = land or never observed, per node; empty: not written
  std::vector<SeriesVariable> variables;  // in the order of the features; grids: one feature each
  TimeAxis time;                          // (T) stamps
  std::vector<FileEdge> edges;            // sensors: written if `has_edges`
  bool has_edges = false;
  bool wide = false;  // values are written as float64
  std::string title;
  std::vector<std::pair<std::string, std::string>> attributes;  // further global ones
  /// For forecasts: the stamp (in `time`'s units) at which they start. Adds forecast_reference_time (scalar)
  /// and lead_time(time) = time − reference, named after CF-1.8 (forecast_reference_time, forecast_period).
  std::optional<double> reference;

  /// Names of the members of an ensemble: each variable gets a <variable>_members(realization, …).
  std::vector<std::string> members = {};
  /// Levels between 0 and 1: each variable gets a <variable>_quantiles(quantile, …).
  std::vector<double> quantiles = {};

  [[nodiscard]] Index features() const;
  [[nodiscard]] bool planar() const { return gridded || rows > 0; }
  /// Lengths of the dimensions of the nodes: (rows, columns) or (nodes).
  [[nodiscard]] std::vector<Index> space() const;
};

/// The layout of a file that was read: the same nodes, variables, times and title, without edges or land
/// mask.
[[nodiscard]] SeriesLayout layout_of(const SeriesInfo& info);

/// The same with names of dimensions and coordinates that differ from `taken`, the names of other variables:
/// the data's own names, or else the usual ones. A dimension with the name of a variable of several
/// dimensions would make the file unreadable.
[[nodiscard]] SeriesLayout with_own_names(SeriesLayout layout, std::set<std::string> taken);

/// Throws BugError if lengths do not fit, and UserError with `path` if there is nothing to write.
void check_layout(const SeriesLayout& layout, const std::string& path);

}  // namespace rossby
