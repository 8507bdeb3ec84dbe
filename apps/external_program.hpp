#pragma once

#include <string>

namespace rossby {

/// The program that the environment variable names, or `usual`, looked for in PATH.
[[nodiscard]] std::string program_named(const char* variable, const std::string& usual);

/// A word for the shell: what is in it stands for itself.
[[nodiscard]] std::string quoted(const std::string& word);

}  // namespace rossby
