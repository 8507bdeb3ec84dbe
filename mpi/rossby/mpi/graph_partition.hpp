#pragma once

#include <span>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Row blocks with small halos for any graph: Scotch on the symmetrised pattern of all relations together.
/// Collective. Every rank gets the same partition, and runs at one rank count agree. Rank 0 alone cuts up to
/// 100,000 rows; the parts are then the same at any number of ranks. All ranks cut larger graphs: PETSc's
/// MatPartitioning with PT-Scotch.
///
/// `block_edges`: this rank's rows under `blocks`, contiguous blocks over the ranks of `comm`. `weights`:
/// cost of each of the n nodes, finite and non-negative, the same on every rank; empty: equal costs. Returns
/// contiguous blocks if there is nothing to cut: one part, fewer rows than parts, or no edges between
/// different nodes. Throws UserError if a weight is not a valid cost.
RowPartition graph_partition(const Communicator& comm, const GlobalEdges& block_edges,
                             const RowPartition& blocks, int parts, std::span<const double> weights = {});

}  // namespace rossby
