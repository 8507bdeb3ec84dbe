#include "rossby/run/console.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"

namespace rossby {

void expect_printed(const Communicator& comm) {
  agree(comm, [] {
    const bool flushed = std::fflush(stdout) == 0;
    const int cause = errno;
    if (flushed && std::ferror(stdout) == 0) return;
    // PETSc flushes again at the end, and would report the failure as its own.
    (void)std::freopen("/dev/null", "w", stdout);
    user_error(
        "cannot write to the standard output{}. Check the free space, or the program that reads this output",
        flushed ? std::string() : fmt::format(": {}", std::strerror(cause)));
  });
}

std::string bytes_text(double bytes) {
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", bytes / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return fmt::format("{:.1f} KiB", bytes / (1 << 10));
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<long>(seconds);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{:.1f}s", seconds);
}

std::string short_seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g}ms", 1e3 * seconds) : seconds_text(seconds);
}

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.2f}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

namespace {

/// True if a person looks at the terminal. The pseudo-terminal that mpirun gives its ranks, even in a job
/// file, has no width.
bool on_terminal() {
  winsize size{};
  return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

}  // namespace

ProgressLine::ProgressLine(bool speaks, double seconds, Index epochs, std::string metric, std::string unit)
    : speaks_(speaks),
      terminal_(on_terminal()),
      seconds_(seconds),
      epochs_(epochs),
      metric_(std::move(metric)),
      unit_(std::move(unit)) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stdout);
}

void ProgressLine::say(const std::string& line) {
  if (!speaks_) return;
  fmt::print("{}{}\n", open_ ? "\r\033[K" : "", line);
  open_ = false;
  std::fflush(stdout);
}

void ProgressLine::show(const EpochReport& report, bool last) {
  if (!speaks_) return;
  if (any_ && !last && shown_.seconds() < seconds_) return;
  any_ = true;
  shown_.restart();
  const double done = static_cast<double>(report.epoch + 1);
  const double left = report.total_seconds / done * (static_cast<double>(epochs_) - done);
  std::string line = fmt::format("epoch {}/{}", report.epoch + 1, epochs_);
  for (const TermMean& term : report.terms) line += fmt::format("  {} {:.4g}", term.name, term.value);
  if (std::isfinite(report.validation))
    line += fmt::format("  validation {} {:.5g} {}{}", metric_, report.validation, unit_,
                        report.best ? " *" : "");
  line += fmt::format("  lr {:.2g}  {} batches/s  {} node-steps/s  left {}  {}", report.lr,
                      count_text(report.batches_per_second), count_text(report.node_steps_per_second),
                      seconds_text(left), bytes_text(peak_resident_bytes()));
  if (terminal_)
    fmt::print("\r\033[K{}", line);
  else
    fmt::print("{}\n", line);
  open_ = terminal_;
  std::fflush(stdout);
}

}  // namespace rossby
