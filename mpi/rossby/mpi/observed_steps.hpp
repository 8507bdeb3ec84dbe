#pragma once

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// The last step up to `last` at which any node of the run has a value; −1: none. Files may continue into the
/// future without values. Reads backwards from the end. Collective.
[[nodiscard]] Index last_observed_step(const Communicator& comm, const Config& config, const Domain& domain,
                                       Index last);

}  // namespace rossby
