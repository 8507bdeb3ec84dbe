#pragma once

#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// The machine, so many times as fast. Messages and rates are what they would have been; calls stay as they
/// were measured, and what is told of them (OpTimes) is projected, call by call: fitted to projected samples,
/// a faster machine could be told to be slower. Of a call, the time that its bytes take at the
/// measured bandwidth is the memory's, unless it took less (its operands came from a cache), and the time
/// that its flops take at the measured rate of products is the compute's; the rest stays. No call becomes
/// faster than the other of the two allows. Of messages, the time of the smallest of a kind is latency. As
/// SPRINT's projections to other networks and precisions (Dryden et al., 2016).
[[nodiscard]] MachineProfile what_if(const MachineProfile& profile, const FasterBy& factors);

/// The machine with the devices of another one: calls there and what their host takes to enqueue them, rates
/// and exchanges of arrays on them. Throws UserError where the other was measured without.
[[nodiscard]] MachineProfile with_devices_of(const MachineProfile& profile, const MachineProfile& other);

}  // namespace rossby
