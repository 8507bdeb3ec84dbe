#pragma once

#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Number of ranks of the communicator on this rank's host. Collective.
[[nodiscard]] int ranks_on_host(const Communicator& comm);

/// Number of hosts that the communicator's ranks run on. Collective.
[[nodiscard]] int hosts_of(const Communicator& comm);

/// This rank's index among the ranks on its host. Collective.
[[nodiscard]] int rank_on_host(const Communicator& comm);

/// Lists the ranks with each number if ranks have different numbers: "1 of rank 0 on node1, 2 of ranks 1 to 3
/// on node2". Lists at most four such groups; empty if all are equal. Collective.
[[nodiscard]] std::string different_numbers(const Communicator& comm, int mine);

/// Returns unused memory to the system if possible, e.g. from temporary lists of a construction.
void release_unused_memory();

/// Returns unused memory and resets the peak of resident memory, if the system allows.
void forget_peak_resident();

/// Resident memory of this process, in bytes; the peak so far if the system does not report it.
[[nodiscard]] double resident_bytes();

/// Largest resident memory of this process so far, in bytes.
[[nodiscard]] double peak_resident_bytes();

}  // namespace rossby
