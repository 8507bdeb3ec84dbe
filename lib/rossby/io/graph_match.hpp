#pragma once

#include <string>
#include <vector>

#include "rossby/io/graph_file.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// The names of nodes in one variable of a series file, one per node; empty if there is no such variable.
[[nodiscard]] std::vector<std::string> node_ids(const SeriesInfo& series, const std::string& variable);

/// Maps each node of the graph to a node of the series, by ids if both files have them. Empty if each has the
/// same number: the order agrees, or one of the files has no ids (`remark` then says so). Throws UserError if
/// ids or, without ids, coordinates of graph and series differ.
[[nodiscard]] std::vector<Index> match_nodes(const GraphFile& graph, const std::string& path,
                                             const SeriesInfo& series, std::string& remark);

}  // namespace rossby
