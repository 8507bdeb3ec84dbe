#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/edge_table.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// A number for each file node that does not change with time (data.static); NaN if there is none.
///
/// `name` is one of the following. "latitude" or "longitude": the coordinates of the nodes in degrees. With
/// an empty `path`: a variable of the series' file whose only dimensions are those of its nodes. Otherwise,
/// in the file `path`: a column of a table of comma-separated values, or a variable of a NetCDF file. The
/// table's first line names the columns. Its first column has ids of nodes: the series' names, or numbers
/// from 0 if it has none. Nodes of a NetCDF file are matched by ids if both files have them. Nodes that the
/// series lacks are skipped. Throws UserError if there is no such variable or column, if its nodes or its
/// grid differ, or if it is not numeric.
[[nodiscard]] std::vector<double> read_node_values(const SeriesInfo& series, const std::string& name,
                                                   const std::string& path);

/// True if the nodes of a NetCDF file `path` have no ids, so that `read_node_values` matches them by position
/// with those of a series whose nodes have ids.
[[nodiscard]] bool matched_by_position(const SeriesInfo& series, const std::string& name,
                                       const std::string& path);

/// Parses column `name` of such a table, one value per node; `names_of` returns the node names for a column
/// name. Messages call the text `path`.
[[nodiscard]] std::vector<double> parse_node_table(
    std::string_view text, const std::string& path, const std::string& name,
    const std::function<NodeNames(const std::string& column)>& names_of);

/// Names of the variables of the series' file that `read_node_values` accepts, without coordinates.
[[nodiscard]] std::vector<std::string> node_variables(const SeriesInfo& series);

/// A file node's name in messages: its id and the id's source, a grid cell's place, or its number.
[[nodiscard]] std::string node_text(const SeriesInfo& series, Index file_node);

}  // namespace rossby
