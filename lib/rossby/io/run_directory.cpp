#include "rossby/io/run_directory.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"

namespace rossby {
namespace {

constexpr const char* lock_name = ".lock";

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

/// "process 123 on host", as the holder wrote it into the lock file; empty if it has written nothing yet.
std::string holder(int fd) {
  char text[512];
  const ssize_t length = ::pread(fd, text, sizeof text, 0);
  std::string line(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  return line.substr(0, line.find('\n'));
}

/// True if the process named in a holder's line still lives, as far as this host can tell.
bool lives_here(const std::string& line) {
  long pid = 0;
  char host[257] = {};
  if (std::sscanf(line.c_str(), "process %ld on %256s", &pid, host) != 2 || pid <= 0 || host != host_name())
    return false;
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

[[noreturn]] void refuse_in_use(const std::string& path, const std::string& line) {
  user_error(
      "{}: this run directory is in use by {}. Wait until this process ends, or name another run "
      "directory",
      path, line.empty() ? "another process" : line);
}

int take_lock(const std::string& path) {
  const std::string name = path + "/" + lock_name;
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    user_error("{}: cannot write into this run directory: {}. Check the free space and the permissions", path,
               std::strerror(errno));
  int locked = ::flock(fd, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR) locked = ::flock(fd, LOCK_EX | LOCK_NB);
  const int cause = errno;
  const std::string line = holder(fd);
  // Any other error means a file system without locks; its number varies (NFS without a lock daemon, Lustre
  // without flock, DVS). The note in the file must then suffice.
  const bool no_locks = locked != 0 && cause != EWOULDBLOCK && cause != EACCES;
  if ((locked != 0 && !no_locks) || (no_locks && lives_here(line))) {
    ::close(fd);
    refuse_in_use(path, line);
  }
  const std::string mine = fmt::format("process {} on {}\n", ::getpid(), host_name());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size())) {
    const int why = errno;
    // A lock holds without its note. On a full disk, results can still go to another one.
    if (locked == 0 && (why == ENOSPC || why == EDQUOT)) return fd;
    ::close(fd);
    user_error("{}: cannot write into this run directory: {}. Check the free space and the permissions", path,
               std::strerror(why));
  }
  return fd;
}

/// Length of a file up to and including its last line break.
off_t whole_lines(int fd, off_t size) {
  char c = 0;
  while (size > 0 && ::pread(fd, &c, 1, size - 1) == 1 && c != '\n') --size;
  return size;
}

}  // namespace

RunDirectory RunDirectory::create(const std::string& path) {
  if (path.empty()) user_error("the run directory is missing. Give --run DIR");
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (!std::filesystem::is_directory(path))
    user_error("{}: cannot make this run directory: {}. Give another directory with --run", path,
               code ? code.message() : "a file has this name");
  return {path, take_lock(path)};
}

RunDirectory RunDirectory::open(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code))
    user_error("{}: no such run directory. Check the path of the run", path);
  if (!std::filesystem::exists(path + "/config.toml", code))
    user_error(
        "{}: not a run directory: it has no config.toml. Name a directory that 'rossby train' has written",
        path);
  return {path, take_lock(path)};
}

RunDirectory RunDirectory::look_into(const std::string& path) {
  std::error_code code;
  const std::string lock = path + "/" + lock_name;
  const bool there = std::filesystem::exists(lock, code);
  if (std::filesystem::exists(path + "/config.toml", code) &&
      ::access((there ? lock : path).c_str(), W_OK) != 0)
    return {path, -1};
  return open(path);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

RunDirectory::~RunDirectory() {
  if (lock_ < 0) return;
  // The file stays: whoever waits on it and whoever would make it anew must lock the same one.
  (void)::ftruncate(lock_, 0);
  ::close(lock_);
}

bool RunDirectory::has_run() const {
  std::error_code code;
  return std::filesystem::exists(config_file(), code);
}

void RunDirectory::make_checkpoints() const {
  std::error_code code;
  std::filesystem::create_directory(checkpoints(), code);
  if (!std::filesystem::is_directory(checkpoints()))
    user_error(
        "{}: cannot make this directory: {}. Check the free space and the permissions of the run directory",
        checkpoints(), code ? code.message() : "a file has this name");
}

void RunDirectory::append_metrics(std::string_view json) const {
  require(json.find('\n') == std::string_view::npos, "a line of metrics is one line");
  const std::string name = metrics_file();
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", name,
               std::strerror(errno));
  struct stat status {};
  const off_t end = ::fstat(fd, &status) == 0 ? whole_lines(fd, status.st_size) : 0;
  const std::string line = std::string(json) + "\n";
  int cause = 0;
  if (end != status.st_size && ::ftruncate(fd, end) != 0) cause = errno;
  if (cause == 0) {
    const ssize_t written = ::pwrite(fd, line.data(), line.size(), end);
    if (written != static_cast<ssize_t>(line.size())) cause = written < 0 ? errno : ENOSPC;
    if (cause != 0) (void)!::ftruncate(fd, end);  // no half line
  }
  if (::close(fd) != 0 && cause == 0) cause = errno;
  if (cause != 0)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", name,
               std::strerror(cause));
}

}  // namespace rossby
