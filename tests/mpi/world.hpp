#pragma once

#include "rossby/mpi/environment.hpp"

namespace rossby::test {

/// All ranks, watched and with an end of their own, as a program has them from Environment::world().
[[nodiscard]] const Communicator& environment_world();

}  // namespace rossby::test
