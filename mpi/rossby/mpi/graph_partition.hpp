#pragma once

#include <span>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Row blocks with small halos for any graph: PETSc's MatPartitioning with PT-Scotch on the symmetrised
/// pattern of all relations together. Collective; every rank gets the same partition, and the same one from
/// run to run at one rank count. Up to 100,000 rows are cut by rank 0 alone: into the same parts by any
/// number of ranks.
///
/// `block_edges`: the rows of this rank under `blocks`, which are contiguous blocks over the ranks of `comm`.
/// `weights`: cost of each of the n nodes, finite and not negative, the same on every rank; empty for equal
/// costs. Returns contiguous blocks where there is nothing to cut: one part, fewer rows than parts, or no
/// edges between different nodes. Throws UserError where a weight is no cost.
RowPartition graph_partition(const Communicator& comm, const GlobalEdges& block_edges,
                             const RowPartition& blocks, int parts, std::span<const double> weights = {});

}  // namespace rossby
