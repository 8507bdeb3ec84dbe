#pragma once

#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// Returns the profile of a machine that is faster by `factors`. Messages and rates are scaled. Calls keep
/// their measurements, and their predicted times (OpTimes) are projected call by call: a fit to projected
/// samples could predict that a faster machine is slower. In a call, the time of its bytes at the measured
/// bandwidth counts as memory time, unless the call took less (its operands came from a cache). The time of
/// its flops at the measured rate of products counts as compute time; the rest does not change. No call
/// becomes faster than memory or compute alone allows. For messages, the time of the smallest one of a kind
/// is latency. This follows SPRINT's projections to other networks and precisions (Dryden et al., 2016).
[[nodiscard]] MachineProfile what_if(const MachineProfile& profile, const FasterBy& factors);

/// Returns the machine with the devices of another one: calls on the device, enqueue times of its host, rates
/// and exchanges of arrays on devices. Throws UserError if the other was measured without a device.
[[nodiscard]] MachineProfile with_devices_of(const MachineProfile& profile, const MachineProfile& other);

}  // namespace rossby
