#pragma once

#include <string>
#include <string_view>

namespace rossby {

/// The directory of one run: its files' names, and a lock that one live process holds. One process of a run
/// (rank 0) owns it; the lock is the kernel's and dies with the process, so a killed run never blocks the
/// next.
class RunDirectory {
 public:
  /// Makes the directory (and its parents) where missing and takes the lock. Throws UserError naming path and
  /// cause: not a directory, not writable, in use (by which process on which host).
  static RunDirectory create(const std::string& path);

  /// The same for a run that has to be there: a directory with config.toml.
  static RunDirectory open(const std::string& path);

  /// The same, but without the lock where this process may not write there: a run of somebody else's.
  static RunDirectory look_into(const std::string& path);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  [[nodiscard]] std::string config_file() const { return file("config.toml"); }
  [[nodiscard]] std::string metrics_file() const { return file("metrics.jsonl"); }
  [[nodiscard]] std::string checkpoints() const { return file("checkpoints"); }
  /// Whether files can be written there.
  [[nodiscard]] bool writable() const { return lock_ >= 0; }
  [[nodiscard]] std::string evaluation_file() const { return file("evaluation.json"); }
  [[nodiscard]] std::string forecast_file() const { return file("forecast.nc"); }
  /// True where a run has already written its configuration here.
  [[nodiscard]] bool has_run() const;

  /// Makes checkpoints/.
  void make_checkpoints() const;

  /// Adds one line to metrics.jsonl: whole, or not at all (UserError, disk full). `json` has no line break.
  /// Half a line that a killed run left is dropped first.
  void append_metrics(std::string_view json) const;

 private:
  RunDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;  // file descriptor; none: the directory is only read
};

}  // namespace rossby
