#pragma once

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// Keeps a device's queue busy for about `seconds`; does nothing on the host. Kernels enqueued meanwhile run
/// without gaps afterwards, so kernels shorter than their launches can be timed.
void occupy(const Exec& exec, double seconds);

}  // namespace rossby
