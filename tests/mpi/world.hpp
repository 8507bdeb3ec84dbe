#pragma once

#include "rossby/mpi/environment.hpp"

namespace rossby::test {

/// All ranks, with a watchdog and orderly termination, as a program gets them from Environment::world().
[[nodiscard]] const Communicator& environment_world();

}  // namespace rossby::test
