#pragma once

#include <span>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Gathers one value per (owned row, column) of every rank on rank 0, in global row order: local (owned,
/// columns) → (n, columns) on rank 0, empty elsewhere. For output of one process, such as a forecast of a few
/// steps. Collective.
[[nodiscard]] std::vector<float> gather_nodes(const Communicator& comm, const RowPartition& partition,
                                              std::span<const float> owned, Index columns);

}  // namespace rossby
