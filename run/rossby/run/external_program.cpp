#include "rossby/run/external_program.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};

// A signal handler may access no other objects.
volatile std::sig_atomic_t asked_to_leave = 0;

void take_note(int number) {
  asked_to_leave = number;
}

/// While it lives, signals are noted, except those that are ignored (nohup).
class NotedSignals {
 public:
  NotedSignals() {
    asked_to_leave = 0;
    struct sigaction* before = before_;
    for (const int number : signals) {
      struct sigaction action {};
      action.sa_handler = take_note;
      sigemptyset(&action.sa_mask);
      sigaction(number, nullptr, before);
      if (before++->sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
    }
  }
  ~NotedSignals() {
    const struct sigaction* before = before_;
    for (const int number : signals) sigaction(number, before++, nullptr);
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

 private:
  struct sigaction before_[std::size(signals)];
};

/// Starts the command in a process group of its own, so that it can be ended as a whole.
pid_t start(const std::string& command) {
  std::string shell = "sh", option = "-c", text = "exec </dev/null; " + command;
  char* const words[] = {shell.data(), option.data(), text.data(), nullptr};
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/bin/sh", nullptr, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    user_error("cannot start {}: {}. Check the limits on processes and memory with ulimit -a", command,
               std::strerror(error));
  return child;
}

}  // namespace

CommandEnd run_command(const std::string& command) {
  constexpr std::chrono::milliseconds pause{5};
  const NotedSignals noted;
  const pid_t child = start(command);
  CommandEnd end;
  while (true) {
    const pid_t ended = ::waitpid(child, &end.status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if (asked_to_leave != 0) (void)::kill(-child, SIGTERM);
    std::this_thread::sleep_for(pause);
  }
  end.signalled = asked_to_leave;
  return end;
}

std::string program_named(const char* variable, const std::string& usual) {
  const char* named = std::getenv(variable);
  return named != nullptr && *named != '\0' ? named : usual;
}

std::string quoted(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace rossby
