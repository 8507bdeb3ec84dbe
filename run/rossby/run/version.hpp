#pragma once

#include <string>

namespace rossby {

/// The commit of this build; empty if the sources were no git checkout. Its source is written at each build.
[[nodiscard]] const char* commit();

/// Version, commit, compiler, options and libraries of this build: `rossby --version`.
[[nodiscard]] std::string version_text();
/// Version and commit alone: what result files carry.
[[nodiscard]] std::string version_short();

}  // namespace rossby
