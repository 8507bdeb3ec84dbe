#pragma once

#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// How many times as fast as measured a machine is taken to be; 1: as it was.
struct FasterBy {
  double network = 1;   // bytes of messages
  double latency = 1;   // messages of hardly any bytes
  double memory = 1;    // bandwidth, of the host and of devices
  double compute = 1;   // flops
  double transfer = 1;  // between the host and a device
};

/// What calls and messages would have taken on such a machine. Of a call, the time that its bytes take at the
/// measured bandwidth is the memory's, unless it took less (its operands came from a cache), and the time
/// that its flops take at the measured rate of products is the compute's; the rest stays. No call becomes
/// faster than the other of the two allows. Of messages, the time of the smallest of a kind is latency. As
/// SPRINT's projections to other networks and precisions (Dryden et al., 2016).
[[nodiscard]] MachineProfile what_if(const MachineProfile& profile, const FasterBy& factors);

/// The machine with the devices of another one: calls there and what their host takes to enqueue them, rates
/// and exchanges of arrays on them. Throws UserError where the other was measured without.
[[nodiscard]] MachineProfile with_devices_of(const MachineProfile& profile, const MachineProfile& other);

}  // namespace rossby
