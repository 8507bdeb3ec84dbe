#pragma once

#include <string>

namespace rossby {

/// Returns the commit of this build; empty if the sources were no git checkout. Written at each build.
[[nodiscard]] const char* commit();

/// Returns version, commit, compiler, options and libraries of this build, for `rossby --version`.
[[nodiscard]] std::string version_text();
/// Returns version and commit alone, for result files.
[[nodiscard]] std::string version_short();

}  // namespace rossby
