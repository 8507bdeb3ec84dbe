#pragma once

#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// The rows of a rank that other ranks want, given their ghosts. Includes rows that the rank wants from
/// itself.
struct WantedRows {
  /// Traffic with one rank: a range of `sent`, and a range of ghosts.
  struct Peer {
    int rank;
    Index first, rows;
    Index first_ghost, ghosts;
  };
  std::vector<Peer> peers;        // all ranks
  std::vector<LocalColumn> sent;  // by receiver
  std::vector<LocalColumn> rows;  // each once, ascending: rows[k] is at position[ptr[k]] … of `sent`
  std::vector<LocalEntry> ptr, position;
};

/// `ghosts`: the rows that this rank wants, ascending; may include its own rows. Collective.
[[nodiscard]] WantedRows wanted_rows(const Communicator& comm, const RowPartition& partition,
                                     const GhostList& ghosts);

}  // namespace rossby
