#pragma once

#include <csignal>
#include <string>
#include <string_view>

#include "rossby/base/stopwatch.hpp"

namespace rossby {

/// Seconds of "1h50m", "45m", "90s", "2d". Throws UserError naming `key` where the text is none.
[[nodiscard]] double parse_duration(std::string_view text, std::string_view key);

/// While it lives, SIGTERM, SIGINT and SIGUSR1 ask this process to leave in good order instead of ending it.
/// A second SIGINT ends it as ever. Afterwards they do again what they did before.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The last of them that came; 0: none did.
  [[nodiscard]] static int received();

 private:
  struct sigaction before_[3];
};

/// "SIGTERM"; "signal 42" of those without a name here.
[[nodiscard]] std::string signal_name(int number);

/// Says when it is time to leave: train.stop_after from its construction on, and the end of a Slurm job
/// (SLURM_JOB_END_TIME, seconds since 1970), so much ahead of it that a checkpoint and the longest pause
/// between two questions fit in twice. An end that had already passed when the process started is that of
/// another job, whose environment it has inherited: it does not count.
class TimeGuard {
 public:
  explicit TimeGuard(double stop_after_seconds);

  /// Asked before every step.
  [[nodiscard]] bool over(double checkpoint_seconds);
  /// Why it was; empty: it was not.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Why SLURM_JOB_END_TIME does not count although it is set; empty: it counts, or is not set.
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
