#pragma once

#include "rossby/exchange/exchange.hpp"

// Counts what this process passes to MPI, by wrappers of its functions (message_count.cpp) in the test
// binary.
namespace rossby::test {

void reset_message_count();

/// Point-to-point messages sent since the last reset, without collectives and messages to this rank itself.
Traffic messages_sent();

/// Fewest messages that MPI_Iallgatherv and MPI_Ialltoallv need: one per non-empty block to another rank.
Traffic collective_sent();

}  // namespace rossby::test
