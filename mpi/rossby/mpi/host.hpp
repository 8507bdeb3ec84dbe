#pragma once

#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Ranks of the communicator that share this rank's host. Collective.
[[nodiscard]] int ranks_on_host(const Communicator& comm);

/// Hosts that the communicator's ranks run on. Collective.
[[nodiscard]] int hosts_of(const Communicator& comm);

/// This rank's number among them. Collective.
[[nodiscard]] int rank_on_host(const Communicator& comm);

/// Where ranks have different numbers, whose is which: "1 of rank 0 on node1, 2 of ranks 1 to 3 on node2", at
/// most four of such groups; empty: all have the same. Collective.
[[nodiscard]] std::string different_numbers(const Communicator& comm, int mine);

/// Gives unused memory back to the system, where it can: lists that building something took.
void release_unused_memory();

/// Does so and forgets how much was resident so far, where the system can.
void forget_peak_resident();

/// Resident memory of this process now, in bytes; where the system does not say it, the largest so far.
[[nodiscard]] double resident_bytes();

/// Largest resident memory of this process so far, in bytes.
[[nodiscard]] double peak_resident_bytes();

}  // namespace rossby
