#pragma once

#include <vector>

#include "benchmarks/kernel_case.hpp"
#include "rossby/kernels/relate.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby::bench {

/// Returns the neighbours of a grid without land, on one rank.
inline CsrBlock grid_block(Index n_lat, Index n_lon, GridRelations kind = GridRelations::directional) {
  Grid grid{n_lat, n_lon, {}, false};
  for (Index i = 0; i < n_lat * n_lon; ++i) grid.node_of_cell.push_back(i);
  const RowPartition partition = RowPartition::blocks(n_lat * n_lon, 1);
  return localise(grid_neighbours(grid, kind, partition, 0), partition, 0, {});
}

/// Returns the number of entries of that block without building it.
inline double grid_entries(Index n_lat, Index n_lon) {
  const auto a = static_cast<double>(n_lat), b = static_cast<double>(n_lon);
  return 2 * (a - 1) * b + 2 * a * (b - 1) + 4 * (a - 1) * (b - 1);
}

}  // namespace rossby::bench
