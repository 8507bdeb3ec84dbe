#pragma once

#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Makes <run>/average of a finished run and the baseline `direct_ridge`, with the weights that are best in
/// the validation part (`average`). Prints its validation error beside those of both members, or why it
/// cannot be made. An average of an earlier state moves to <run>/earlier_state; one of other members stays as
/// it is. Collective over `comm`.
void average_with_baseline(const Communicator& comm, const std::string& run);

}  // namespace rossby
