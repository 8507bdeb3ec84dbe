#pragma once

#include <string>

#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// Describes this machine, without measurements.
[[nodiscard]] MachineProfile describe_machine();

/// Adds measurements to a machine's file (JSON), or replaces the file. Reads it again before, because other
/// processes may have written since. A killed process leaves the old file. Throws UserError. If the file is
/// now of another machine, the measurements go into a file beside it.
void add_to_machine_file(const std::string& file, const MachineProfile& measured, bool replace = false);

}  // namespace rossby
