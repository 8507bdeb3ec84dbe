#include "rossby/run/stop_request.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

// A signal handler reaches nothing else.
volatile std::sig_atomic_t stop_received = 0;

constexpr int signals[] = {SIGTERM, SIGINT, SIGUSR1};

void take_note(int) {
  stop_received = 1;
}

double seconds_of_unit(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 86400;
    default:
      return 0;
  }
}

}  // namespace

double parse_duration(std::string_view text, std::string_view key) {
  double seconds = 0;
  std::string rest(text);
  bool good = !rest.empty();
  while (good && !rest.empty()) {
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    const double unit = end != rest.c_str() ? seconds_of_unit(*end) : 0;
    good = unit > 0 && value >= 0 && value < 1e9 && rest.front() >= '0' && rest.front() <= '9';
    if (good) seconds += value * unit;
    if (good) rest.erase(0, static_cast<std::size_t>(end - rest.c_str()) + 1);
  }
  if (!good || seconds <= 0)
    user_error("{} = \"{}\" is no time: write it as 1h50m, 45m, 90s or 2d", key, text);
  return seconds;
}

StopSignals::StopSignals() {
  stop_received = 0;
  struct sigaction* before = before_;
  for (const int number : signals) {
    struct sigaction action {};
    action.sa_handler = take_note;
    action.sa_flags = SA_RESTART | (number == SIGINT ? static_cast<int>(SA_RESETHAND) : 0);
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, before++);
  }
}

StopSignals::~StopSignals() {
  const struct sigaction* before = before_;
  for (const int number : signals) sigaction(number, before++, nullptr);
}

bool StopSignals::received() {
  return stop_received != 0;
}

TimeGuard::TimeGuard(double stop_after_seconds) : limit_(stop_after_seconds) {
  if (const char* end = std::getenv("SLURM_JOB_END_TIME")) job_end_ = std::strtod(end, nullptr);
}

bool TimeGuard::over(double checkpoint_seconds) {
  longest_ = std::max(longest_, last_.restart());
  if (limit_ > 0 && begin_.seconds() >= limit_) return true;
  if (job_end_ <= 0) return false;
  const double wall =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return wall >= job_end_ - 5 - 2 * (checkpoint_seconds + longest_);
}

}  // namespace rossby
