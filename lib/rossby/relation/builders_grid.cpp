#include <algorithm>
#include <array>
#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {
namespace {

struct Step {
  Index lat;
  Index lon;
};

/// N, NE, E, SE, S, SW, W, NW.
constexpr std::array<Step, 8> directions{
    {{1, 0}, {1, 1}, {0, 1}, {-1, 1}, {-1, 0}, {-1, -1}, {0, -1}, {1, -1}}};

/// The node one step from a cell, or −1.
Index neighbour(const Grid& grid, Index cell, Step step) {
  const Index lat = cell / grid.n_lon + step.lat;
  Index lon = cell % grid.n_lon + step.lon;
  if (lat < 0 || lat >= grid.n_lat) return -1;
  if (step.lon != 0 && !grid.apart.empty()) {
    const Index west = step.lon > 0 ? lon - 1 : lon;
    if (west >= 0 && west < grid.n_lon - 1 && grid.apart[static_cast<std::size_t>(west)] != 0) return -1;
  }
  // With two columns each is already the other's neighbour; a single one would be its own.
  if (grid.periodic_lon && grid.n_lon >= 3) lon = (lon + grid.n_lon) % grid.n_lon;
  if (lon < 0 || lon >= grid.n_lon) return -1;
  return grid.node_of_cell[static_cast<std::size_t>(lat * grid.n_lon + lon)];
}

/// The cell of each owned row.
std::vector<Index> owned_cells(const Grid& grid, const RowPartition& partition, int part) {
  std::vector<Index> cells(static_cast<std::size_t>(partition.size(part)), -1);
  for (Index c = 0; c < static_cast<Index>(grid.node_of_cell.size()); ++c) {
    const Index node = grid.node_of_cell[static_cast<std::size_t>(c)];
    if (node < 0) continue;
    require(node < partition.rows(), "a grid cell names a node that the partition does not have");
    const Index local = partition.position(GlobalRow{node}).value - partition.begin(part);
    if (local >= 0 && local < partition.size(part)) cells[static_cast<std::size_t>(local)] = c;
  }
  for (const Index cell : cells) require(cell >= 0, "every owned node lies in a grid cell");
  return cells;
}

}  // namespace

ColumnJoins join_columns(std::span<const double> longitude) {
  ColumnJoins joins;
  const std::size_t n = longitude.size();
  if (n < 3) return joins;
  const auto apart = [&](std::size_t a, std::size_t b) {
    const double way = std::fmod(std::abs(longitude[a] - longitude[b]), 360);
    return std::min(way, 360 - way);
  };
  std::vector<double> gaps;
  for (std::size_t j = 0; j + 1 < n; ++j) gaps.push_back(apart(j, j + 1));
  joins.apart.assign(n - 1, 0);
  for (std::size_t j = 0; j < gaps.size(); ++j) {
    const double before = j > 0 ? gaps[j - 1] : 0, behind = j + 1 < gaps.size() ? gaps[j + 1] : 0;
    joins.apart[j] = gaps[j] > 2.5 * std::max(before, behind) ? 1 : 0;
  }
  const double way = apart(n - 1, 0), step = std::max(gaps.front(), gaps.back());
  joins.round = way > 0.5 * step && way <= 1.5 * step;
  return joins;
}

GlobalEdges grid_neighbours(const Grid& grid, GridRelations kind, const RowPartition& partition, int part) {
  require(static_cast<Index>(grid.node_of_cell.size()) == grid.n_lat * grid.n_lon, "one node number a cell");
  GlobalEdges edges;
  edges.rows = partition.size(part);
  edges.relations = kind == GridRelations::directional ? static_cast<int>(directions.size()) : 1;
  edges.ptr.reserve(static_cast<std::size_t>(edges.rows * edges.relations) + 1);
  edges.ptr.push_back(0);
  for (const Index cell : owned_cells(grid, partition, part)) {
    const std::size_t row_begin = edges.column.size();
    for (const Step step : directions) {
      if (const Index node = neighbour(grid, cell, step); node >= 0) edges.column.push_back(GlobalRow{node});
      if (kind == GridRelations::directional) edges.ptr.push_back(edges.entries());
    }
    if (kind == GridRelations::one) {
      std::sort(edges.column.begin() + static_cast<std::ptrdiff_t>(row_begin), edges.column.end());
      edges.ptr.push_back(edges.entries());
    }
  }
  edges.value.assign(edges.column.size(), 1.0);
  return edges;
}

}  // namespace rossby
