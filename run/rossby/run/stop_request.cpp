#include "rossby/run/stop_request.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

// A signal handler may access no other objects.
volatile std::sig_atomic_t stop_received = 0;

constexpr int signals[] = {SIGTERM, SIGINT, SIGUSR1};

void take_note(int number) {
  stop_received = number;
}

constexpr const char* job_end_variable = "SLURM_JOB_END_TIME";

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// About when the process started. Reading data takes time, in which the end of the own job may pass.
const double process_start = wall_clock();

/// "2026-11-29T02:15:00Z"
std::string time_text(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32];
  if (gmtime_r(&whole, &parts) == nullptr || std::strftime(text, sizeof text, "%FT%TZ", &parts) == 0)
    return "?";
  return text;
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
    user_error("{} = \"{}\" is not a time. Write a time like 1h50m, 45m, 90s or 2d", key, text);
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

int StopSignals::received() {
  return stop_received;
}

std::string signal_name(int number) {
  return number == SIGTERM   ? "SIGTERM"
         : number == SIGINT  ? "SIGINT"
         : number == SIGUSR1 ? "SIGUSR1"
                             : fmt::format("signal {}", number);
}

TimeGuard::TimeGuard(double stop_after_seconds) : limit_(stop_after_seconds) {
  const char* end = std::getenv(job_end_variable);
  if (end == nullptr || *end == '\0') return;
  const std::string_view text(end);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), job_end_);
  constexpr double latest = 1e11;  // the year 5138; larger numbers are not seconds
  if (error != std::errc{} || rest != text.data() + text.size() || !(job_end_ > 0 && job_end_ < latest))
    doubt_ = fmt::format("{} = \"{}\" is not a time in seconds since 1970", job_end_variable, text);
  else if (job_end_ <= process_start)
    doubt_ = fmt::format("{} = {} ({}) has passed: this time belongs to another job", job_end_variable, text,
                         time_text(job_end_));
  if (!doubt_.empty()) job_end_ = 0;
}

bool TimeGuard::over(double checkpoint_seconds) {
  longest_ = std::max(longest_, last_.restart());
  if (limit_ > 0 && begin_.seconds() >= limit_) {
    reason_ = "the time of train.stop_after is over";
    return true;
  }
  if (job_end_ <= 0) return false;
  const double ahead = 5 + 2 * (checkpoint_seconds + longest_);
  if (wall_clock() < job_end_ - ahead) return false;
  reason_ = fmt::format("the job ends at {} ({}), less than {:.0f} s from now", time_text(job_end_),
                        job_end_variable, std::ceil(ahead));
  return true;
}

}  // namespace rossby
