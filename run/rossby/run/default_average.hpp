#pragma once

#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Makes <run>/average of a finished run and the baselines `direct_ridge`, `direct_ar`, `cycle` and
/// `persistence`, with the weights that are best in the validation part (`average`). If that part has few
/// windows, the run and `direct_ridge` are the only members. Prints the validation error beside those of the
/// members, or why the average cannot be made. An average of an earlier state moves to <run>/earlier_state;
/// one of other members stays as it is. Collective over `comm`.
void average_with_baselines(const Communicator& comm, const std::string& run);

}  // namespace rossby
