#pragma once

#include "rossby/exchange/exchange.hpp"

// Counts of what this process hands to MPI, by wrappers of its functions (message_count.cpp) in the test
// binary.
namespace rossby::test {

void reset_message_count();

/// Point-to-point messages sent since the last reset; messages to this rank itself and collectives left out.
Traffic messages_sent();

/// Messages that MPI_Iallgatherv and MPI_Ialltoallv must at least make: non-empty blocks to each other rank.
Traffic collective_sent();

}  // namespace rossby::test
