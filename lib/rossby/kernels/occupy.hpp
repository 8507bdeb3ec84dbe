#pragma once

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// Keeps a device's queue busy for about so many seconds; nothing on the host. What is enqueued meanwhile
/// runs without gaps behind it: for who measures kernels that are shorter than their launches.
void occupy(const Exec& exec, double seconds);

}  // namespace rossby
