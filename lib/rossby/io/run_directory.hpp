#pragma once

#include <string>
#include <string_view>

namespace rossby {

/// The directory of one run: names of its files, and a lock that one live process holds. One process of a run
/// (rank 0) owns it. The kernel releases the lock when the process dies, so a killed run never blocks the
/// next.
class RunDirectory {
 public:
  /// Creates the directory and its parents if they are missing, and takes the lock. Throws UserError with
  /// path and cause: not a directory, not writable, in use (by which process on which host).
  static RunDirectory create(const std::string& path);

  /// The same for an existing run: a directory with config.toml.
  static RunDirectory open(const std::string& path);

  /// The same, but without the lock if this process may not write there, such as in another user's run.
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
  /// True if this process can write files there.
  [[nodiscard]] bool writable() const { return lock_ >= 0; }
  [[nodiscard]] std::string evaluation_file() const { return file("evaluation.json"); }
  [[nodiscard]] std::string forecast_file() const { return file("forecast.nc"); }
  /// True if a run has already written its configuration here.
  [[nodiscard]] bool has_run() const;

  /// Creates checkpoints/.
  void make_checkpoints() const;

  /// Appends one line to metrics.jsonl, whole or not at all (UserError, disk full). `json` has no line break.
  /// Removes half a line that a killed run left.
  void append_metrics(std::string_view json) const;

 private:
  RunDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;  // file descriptor; −1: the directory is only read
};

}  // namespace rossby
