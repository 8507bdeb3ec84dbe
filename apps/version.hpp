#pragma once

#include <string>

namespace rossby {

/// Version, commit, compiler, options and libraries of this build: `rossby --version`.
[[nodiscard]] std::string version_text();
/// Version and commit alone: what result files carry.
[[nodiscard]] std::string version_short();

}  // namespace rossby
