#pragma once

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Mean distance of neighbours in memory: the mean of |i − j| over the entries of `edges` between two
/// different rows of this rank, as local rows. 0 if there are none.
[[nodiscard]] double mean_distance(const GlobalEdges& edges, const RowPartition& partition, int part);

/// Returns a partition with the same owners that places neighbours close together: reverse Cuthill-McKee
/// (Cuthill and McKee, ACM 1969; George 1971) by PETSc on the symmetrised pattern within each rank's rows,
/// all relations together. Products with sparse relations then read more rows from cache instead of memory.
/// `edges`: this rank's rows under `partition`. Collective. Every rank gets the same partition, the same in
/// every run.
[[nodiscard]] RowPartition reverse_cuthill_mckee(const Communicator& comm, const GlobalEdges& edges,
                                                 const RowPartition& partition);

}  // namespace rossby
