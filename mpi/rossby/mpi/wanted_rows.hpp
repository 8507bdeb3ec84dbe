#pragma once

#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Which of a rank's rows other ranks want, and it of itself, where their ghosts are known.
struct WantedRows {
  /// What goes to and comes from a rank: places of `sent`, and ghosts.
  struct Peer {
    int rank;
    Index first, rows;
    Index first_ghost, ghosts;
  };
  std::vector<Peer> peers;        // every rank
  std::vector<LocalColumn> sent;  // by receiver
  std::vector<LocalColumn> rows;  // each once, ascending: places position[ptr[k]] … of `sent` are rows[k]
  std::vector<LocalEntry> ptr, position;
};

/// `ghosts`: what this rank wants, ascending; rows of its own may be among them. Collective.
[[nodiscard]] WantedRows wanted_rows(const Communicator& comm, const RowPartition& partition,
                                     const GhostList& ghosts);

}  // namespace rossby
