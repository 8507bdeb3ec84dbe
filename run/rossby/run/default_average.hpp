#pragma once

#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Makes <run>/average of a run that has ended and the baseline `direct_ridge`, with the weights that are
/// best in the validation part (`average`), and prints its validation error beside theirs. An average of an
/// earlier state of the run moves to <run>/earlier_state; one of other members stays as it is. Prints why if
/// it cannot be made. Collective over `comm`.
void average_with_baseline(const Communicator& comm, const std::string& run);

}  // namespace rossby
