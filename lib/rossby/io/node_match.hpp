#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// Throws UserError if the axes of another file's grid, (row, column), differ in values from the series'.
/// Axes missing from either file are skipped. `key` ends the message: the key that names the file.
void check_axes(const ArrayFile& file, const SeriesInfo& series,
                const std::vector<NetcdfDimension>& dimensions, std::string_view key);

/// For each node of a sensor series, its place along a dimension of another file, by the ids that both files
/// have; −1 if it is absent. If a file has no ids, the order is the same. Throws UserError, with the variable
/// `name` and with `key` as above, if two nodes have the same id, or if the numbers of nodes differ without
/// ids.
[[nodiscard]] std::vector<Index> places_of_nodes(const ArrayFile& file, const SeriesInfo& series,
                                                 const NetcdfDimension& dimension, const std::string& name,
                                                 std::string_view key);

/// True if the series has ids and a sensors' dimension of another file has none, so that places_of_nodes
/// relies on their order.
[[nodiscard]] bool matched_by_position(const ArrayFile& file, const SeriesInfo& series,
                                       const NetcdfDimension& dimension);

}  // namespace rossby
