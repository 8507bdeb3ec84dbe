#pragma once

#include <string>
#include <string_view>

#include "rossby/base/index.hpp"
#include "rossby/base/stopwatch.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Prints the progress of a training on rank 0: one line an epoch, at most one every `seconds`. On a terminal
/// the line is rewritten in place; in a file each is a line of its own. Other ranks are silent.
class ProgressLine {
 public:
  /// `metric` and `unit` are those of validation errors: "mae", "m s-1".
  ProgressLine(bool speaks, double seconds, Index epochs, std::string metric, std::string unit);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const EpochReport& report, bool last);
  /// Prints a line of its own.
  void say(const std::string& line);

 private:
  bool speaks_;
  bool terminal_;
  double seconds_;
  Index epochs_;
  std::string metric_, unit_;
  bool open_ = false;  // the line on the terminal has no end yet
  bool any_ = false;
  Stopwatch shown_;
};

/// Throws UserError if printed output could not be written. Collective.
void expect_printed(const Communicator& comm);

/// "12.3 GiB", "4.0 MiB".
[[nodiscard]] std::string bytes_text(double bytes);
/// "1h02m", "3m20s", "12.4s".
[[nodiscard]] std::string seconds_text(double seconds);
/// Below a second in milliseconds: "12.3ms".
[[nodiscard]] std::string short_seconds_text(double seconds);
/// "1.2M", "340k", "12".
[[nodiscard]] std::string count_text(double count);

}  // namespace rossby
