#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/edge_table.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// A number for each file node that does not change with the time (data.static); NaN where there is none.
///
/// `name` is "latitude" or "longitude": the coordinates of the nodes in degrees; or, if `path` is empty, a
/// variable of the series' file whose only dimensions are those of its nodes; or else of the file `path`: a
/// column of a table of comma-separated values, whose first line names the columns and whose first column
/// has ids of nodes (the series' names of them, or their numbers from 0 if it has none), or a variable of a
/// NetCDF file, whose nodes are matched by their ids if both files have them. Nodes that the series does not
/// have are passed over. Throws UserError if there is no such variable or column, its nodes or its grid are
/// others, or it is not numbers.
[[nodiscard]] std::vector<double> read_node_values(const SeriesInfo& series, const std::string& name,
                                                   const std::string& path);

/// Column `name` of such a table, one value a node; `names_of` tells what a column of that name calls nodes.
/// Messages call the text `path`.
[[nodiscard]] std::vector<double> parse_node_table(
    std::string_view text, const std::string& path, const std::string& name,
    const std::function<NodeNames(const std::string& column)>& names_of);

/// Names of the variables of the series' file that `read_node_values` would take, coordinates left out.
[[nodiscard]] std::vector<std::string> node_variables(const SeriesInfo& series);

/// How messages name a file node: its id and where it is from, a grid cell's place, or its number.
[[nodiscard]] std::string node_text(const SeriesInfo& series, Index file_node);

}  // namespace rossby
