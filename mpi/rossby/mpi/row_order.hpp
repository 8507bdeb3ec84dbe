#pragma once

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Distance in memory of neighbours: the mean of |i − j| over the entries of `edges` that join two different
/// rows of this rank, each at its local row. 0 where there is none.
[[nodiscard]] double mean_distance(const GlobalEdges& edges, const RowPartition& partition, int part);

/// The same owners with neighbours close together: reverse Cuthill-McKee (Cuthill and McKee, ACM 1969; George
/// 1971) by PETSc on the symmetrised pattern of each rank's rows among themselves, all relations together. A
/// product with sparse relations then gathers from cache what it would gather from memory. `edges`: this
/// rank's rows under `partition`. Collective; every rank gets the same partition, and the same one from run
/// to run.
[[nodiscard]] RowPartition reverse_cuthill_mckee(const Communicator& comm, const GlobalEdges& edges,
                                                 const RowPartition& partition);

}  // namespace rossby
