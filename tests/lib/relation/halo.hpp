#pragma once

#include <algorithm>
#include <vector>

#include "rossby/relation/builders.hpp"
#include "rossby/relation/relation_block.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby::test {

/// Number of ghosts: of all parts together, and of the part with most.
struct Halo {
  Index total = 0;
  Index largest = 0;
};

/// Counts the ghosts of the 8-neighbour relation of a grid, or of its powers `hops`.
inline Halo halo(const Grid& grid, const RowPartition& partition, const std::vector<int>& hops = {1}) {
  const auto counts = on_parts(partition.parts(), [&](Mailbox& mailbox) {
    const GlobalEdges edges = powers(grid_neighbours(grid, GridRelations::one, partition, mailbox.part()),
                                     hops, partition, mailbox);
    const GlobalEdges* const group = &edges;
    return static_cast<Index>(collect_ghosts(partition, mailbox.part(), {&group, 1}).size());
  });
  Halo halo;
  for (const Index ghosts : counts) {
    halo.total += ghosts;
    halo.largest = std::max(halo.largest, ghosts);
  }
  return halo;
}

inline RowPartition tiles(const Grid& grid, int parts) {
  return RowPartition::from_owners(grid_tiles(grid.n_lat, grid.n_lon, grid.node_of_cell, parts), parts);
}

}  // namespace rossby::test
