#pragma once

#include <string>

namespace rossby {

/// Returns the program that the environment variable names, or else `usual`. The shell looks for it in PATH.
[[nodiscard]] std::string program_named(const char* variable, const std::string& usual);

/// How a command ended.
struct CommandEnd {
  int status = 0;     // as of waitpid
  int signalled = 0;  // signal to this process, for which the command was ended; 0: none
};

/// Runs a command in the shell, without input. SIGINT, SIGTERM and SIGHUP end the command, but not this
/// process, which can clear up and leave.
[[nodiscard]] CommandEnd run_command(const std::string& command);

/// Returns a word for the shell, quoted if necessary, so that its characters stand for themselves.
[[nodiscard]] std::string quoted(const std::string& word);

}  // namespace rossby
