#pragma once

#include <span>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Row blocks with small halos for any graph: PETSc's MatPartitioning with PT-Scotch on the symmetrised
/// pattern of all relations together, one part a rank. Collective; every rank gets the same partition, and
/// the same one from run to run at one rank count.
///
/// `block_edges`: the rows of this rank under `blocks`, which are contiguous blocks over the ranks of `comm`.
/// `weights`: cost of each of the n nodes, finite and not negative, the same on every rank; empty for equal
/// costs. Returns `blocks` itself where there is nothing to cut: one rank, n < P, or no edges between
/// different nodes. Throws UserError where a weight is no cost.
RowPartition graph_partition(const Communicator& comm, const GlobalEdges& block_edges,
                             const RowPartition& blocks, std::span<const double> weights = {});

}  // namespace rossby
