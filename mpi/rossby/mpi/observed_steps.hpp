#pragma once

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// The last step up to `last` at which any node of the run has a value; −1: none. Files may go on into the
/// future without values. Reads from the end on. Collective.
[[nodiscard]] Index last_observed_step(const Communicator& comm, const Config& config, const Domain& domain,
                                       Index last);

}  // namespace rossby
