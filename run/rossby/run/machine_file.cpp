#include "rossby/run/machine_file.hpp"

#include <ctime>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/mpi/libraries.hpp"
#include "rossby/plan/rates.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32];
  (void)std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&time));
  return text;
}

/// A lock on a folder, between processes of this kind. If the file system has no locks, nobody waits.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace

MachineProfile describe_machine() {
  MachineProfile profile;
  char name[256] = "";
  (void)gethostname(name, sizeof name - 1);
  profile.host = name;
  profile.processor = processor();
  profile.cores = static_cast<int>(std::thread::hardware_concurrency());
  profile.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  profile.date = now();
  profile.version = version_short();
  profile.mpi = library_versions();
  profile.blas = blas_core();
  return profile;
}

void add_to_machine_file(const std::string& file, const MachineProfile& measured, bool replace) {
  // Reading a pipe would block: its writer has already written.
  if (!replace && std::filesystem::exists(file) && !std::filesystem::is_regular_file(file))
    user_error("{}: not a regular file, so that nothing can be added to it. Name a machine file", file);
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const FolderLock lock(folder.empty() ? "." : folder.string());
  MachineProfile profile = measured;
  if (!replace && std::filesystem::exists(file)) try {
      MachineProfile known = read_profile(file);
      merge(known, measured);
      profile = std::move(known);
    } catch (const UserError& error) {
      const std::string aside = fmt::format("{}.{}", file, ::getpid());
      atomic_write(aside, json_of(measured).dump(1) + "\n");
      user_error(
          "{}: this file was changed during the measurement: {}. The new measurements are in {}: use "
          "that file instead",
          file, error.what(), aside);
    }
  atomic_write(file, json_of(profile).dump(1) + "\n");
}

}  // namespace rossby
