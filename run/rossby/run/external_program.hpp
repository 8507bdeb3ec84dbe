#pragma once

#include <string>

namespace rossby {

/// The program that the environment variable names, or `usual`, looked for in PATH.
[[nodiscard]] std::string program_named(const char* variable, const std::string& usual);

/// How a command ended.
struct CommandEnd {
  int status = 0;  // as of waitpid
  int signalled =
      0;  // what this process was asked to leave by meanwhile, and ended the command for; 0: nothing
};

/// Runs a command by the shell, without input. SIGINT, SIGTERM and SIGHUP end it, and this process goes on:
/// to clear up, and to leave.
[[nodiscard]] CommandEnd run_command(const std::string& command);

/// A word for the shell, in quotes where it needs them: what is in it stands for itself.
[[nodiscard]] std::string quoted(const std::string& word);

}  // namespace rossby
