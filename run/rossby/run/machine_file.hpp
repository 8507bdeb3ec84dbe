#pragma once

#include <string>

#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// This machine, of which nothing has been measured yet.
[[nodiscard]] MachineProfile describe_machine();

/// Writes what was measured into a machine's file (JSON), with what that holds by now unless it is to be
/// replaced: other processes may have written since. A process that is killed leaves the old file. Throws
/// UserError; if the file is of another machine by now, what was measured goes into a file beside it.
void add_to_machine_file(const std::string& file, const MachineProfile& measured, bool replace = false);

}  // namespace rossby
