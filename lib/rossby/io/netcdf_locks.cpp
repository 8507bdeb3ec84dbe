#include "rossby/io/netcdf_locks.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr const char* variable = "HDF5_USE_FILE_LOCKING";

enum class Locking { off, on, unsaid };

/// The user's setting, read before this process sets its own for HDF5.
Locking said() {
  static const Locking locking = [] {
    const char* value = std::getenv(variable);
    if (value == nullptr) return Locking::unsaid;
    const std::string_view text(value);
    return text == "FALSE" || text == "0" ? Locking::off : Locking::on;
  }();
  return locking;
}

/// Returns 0, or the error of requesting a shared lock; releases the lock.
int try_lock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;  // another check reports this
  errno = 0;
  const int cause = ::flock(fd, LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
  ::close(fd);
  return cause;
}

}  // namespace

void use_own_locks() {
  if (said() == Locking::unsaid) ::setenv(variable, "FALSE", 0);
}

void refuse_locked(const std::string& path) {
  if (said() == Locking::off || try_lock(path) != EWOULDBLOCK) return;
  user_error(
      "{}: another process has locked this file for writing. Wait until the process closes the file, or set "
      "{}=FALSE to read the locked file",
      path, variable);
}

std::string why_hdf5_refuses(const std::string& path) {
  std::array<char, 24> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  if (file.gcount() < 24 || !std::string_view(head.data(), 8).starts_with("\x89HDF\r\n\x1a\n")) return "";
  const int version = head[8];
  const auto flags = static_cast<unsigned char>(head[version >= 2 ? 11 : 20]);
  if (version >= 2 && (flags & 5U) != 0)  // open for writing, including by a writer that allows readers
    return "the file is marked as open for writing. Wait until the writing process ends; if no process "
           "writes the file, run h5clear -s FILE";
  if (const int cause = try_lock(path); cause != 0 && said() == Locking::on)
    return std::string("the file cannot be locked (") + std::strerror(cause) + "). Set " + variable +
           "=FALSE";
  return "";
}

}  // namespace rossby
