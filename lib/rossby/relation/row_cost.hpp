#pragma once

#include <span>
#include <vector>

#include "rossby/relation/edges.hpp"
#include "rossby/relation/mailbox.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Cost of each owned row per step, in any unit: row_cost for the row itself (its share of the dense layers)
/// plus entry_cost for each of its entries in all relations. RowPartition::blocks and grid_tiles balance
/// these costs. For STNN with latent width d and r relations, row_cost = (r+1)·d and entry_cost = 1 count the
/// multiplications of a one-layer step.
std::vector<double> row_costs(const GlobalEdges& edges, double row_cost, double entry_cost);

/// Gathers the owned values of all parts (one per row, in position order) as n values by global row, the same
/// on every part. Needs 8 bytes per node: for partitioners, not for node data. Collective.
std::vector<double> gather_by_global_row(std::span<const double> owned, const RowPartition& partition,
                                         Mailbox& mailbox);

}  // namespace rossby
