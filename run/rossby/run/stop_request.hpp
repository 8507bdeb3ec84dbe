#pragma once

#include <csignal>
#include <string>
#include <string_view>

#include "rossby/base/stopwatch.hpp"

namespace rossby {

/// Returns the seconds of "1h50m", "45m", "90s", "2d". Throws UserError naming `key` for other texts.
[[nodiscard]] double parse_duration(std::string_view text, std::string_view key);

/// While it lives, SIGTERM, SIGINT and SIGUSR1 ask this process to leave in good order instead of ending it.
/// A second SIGINT ends the process as usual. Afterwards the signals do what they did before.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the last signal that came; 0 if none did.
  [[nodiscard]] static int received();

 private:
  struct sigaction before_[3];
};

/// Returns "SIGTERM"; "signal 42" for signals without a name here.
[[nodiscard]] std::string signal_name(int number);

/// Says when it is time to leave: train.stop_after from its construction on, or before the end of a Slurm job
/// (SLURM_JOB_END_TIME, seconds since 1970). The time before this end is enough for twice a checkpoint and
/// the longest pause between two questions. An end that had passed when the process started is ignored: it
/// was inherited from another job.
class TimeGuard {
 public:
  explicit TimeGuard(double stop_after_seconds);

  /// True if it is time to leave. Ask before every step.
  [[nodiscard]] bool over(double checkpoint_seconds);
  /// Returns why over() was true; empty if it was not.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Returns why SLURM_JOB_END_TIME is ignored although it is set; empty if it counts or is not set.
  [[nodiscard]] const std::string& doubt() const { return doubt_; }

 private:
  std::string reason_, doubt_;
  double limit_;
  double job_end_ = 0;  // seconds since 1970; 0: none
  Stopwatch begin_;
  Stopwatch last_;
  double longest_ = 0;
};

}  // namespace rossby
