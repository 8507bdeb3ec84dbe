#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// Throws UserError if axes of another file's grid, (row, column), have other values than the series'. Axes
/// that one of them does not have are passed over. `key` ends the message: what names that file.
void check_axes(const ArrayFile& file, const SeriesInfo& series,
                const std::vector<NetcdfDimension>& dimensions, std::string_view key);

/// For each node of a series of sensors its place along a dimension of another file, by the ids that both
/// files have; −1 if it is not there. Without ids in one of them their order is the same. Throws UserError if
/// two nodes have the same id, or without ids the numbers of nodes differ: of the `name`d variable, and `key`
/// as above.
[[nodiscard]] std::vector<Index> places_of_nodes(const ArrayFile& file, const SeriesInfo& series,
                                                 const NetcdfDimension& dimension, const std::string& name,
                                                 std::string_view key);

}  // namespace rossby
