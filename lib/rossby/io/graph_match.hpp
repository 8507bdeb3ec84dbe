#pragma once

#include <string>
#include <vector>

#include "rossby/io/graph_file.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// What a series file calls its nodes in one of its variables, one a node; empty where it has none such.
[[nodiscard]] std::vector<std::string> node_ids(const SeriesInfo& series, const std::string& variable);

/// Which node of the series each node of the graph is, by the ids that both files have; empty: the one with
/// the same number, because the order is the same or one of the files has no ids (then `remark` says so).
/// Throws UserError where ids or, without ids, coordinates of the graph are not those of the series.
[[nodiscard]] std::vector<Index> match_nodes(const GraphFile& graph, const std::string& path,
                                             const SeriesInfo& series, std::string& remark);

}  // namespace rossby
