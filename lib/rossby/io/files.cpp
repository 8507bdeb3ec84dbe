#include "rossby/io/files.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// True if the text begins as UTF-16 does, as spreadsheets export it: by its mark, or by ASCII in two bytes.
bool is_utf16(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return true;
  const auto zero = [&](std::size_t at) { return text[at] == '\0' && text[at ^ 1U] != '\0'; };
  return text.size() >= 4 && ((zero(0) && zero(2)) || (zero(1) && zero(3)));
}

}  // namespace

std::string read_text(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    user_error("{}: cannot read this file: {}. Check the path and the permissions", path,
               std::strerror(errno));
  std::string text;
  char part[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.get(), part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      user_error("{}: cannot read this file: {}. Check the path and the permissions", path,
                 std::strerror(errno));
    if (count == 0 && is_utf16(text))
      user_error(
          "{}: the text is UTF-16, but has to be UTF-8. Convert the file: iconv -f UTF-16 -t UTF-8 FILE > "
          "NEW",
          path);
    if (count == 0) return text;
    text.append(part, static_cast<std::size_t>(count));
    if (text.size() > most)
      user_error("{}: the file is longer than {} bytes, the limit for such files. Shorten the file", path,
                 most);
  }
}

std::string temporary_name(const std::string& path) {
  return fmt::format("{}.{}.part", path, ::getpid());
}

namespace {

/// Refuses to replace anything that exists and is not a regular file.
void refuse_no_file(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    user_error("{}: cannot write this file: it is {}. Name another file", path,
               S_ISDIR(there.st_mode) ? "a directory" : "not a regular file, and would be replaced by one");
}

}  // namespace

void refuse_to_replace(const std::string& output, std::span<const std::string> inputs) {
  refuse_no_file(output);
  std::error_code code;
  for (const std::string& input : inputs)
    if (!input.empty() && std::filesystem::equivalent(output, input, code))
      user_error("{}: this input file would be overwritten. Name another output file with -o", output);
}

void commit_file(const std::string& temporary, const std::string& path) {
  refuse_no_file(path);
  const Descriptor file(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", path,
               std::strerror(errno));
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const Descriptor directory(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0)
    (void)::fsync(directory.get());  // some file systems cannot sync; the rename holds anyway
}

void atomic_write(const std::string& path, std::string_view text) {
  const std::string temporary = temporary_name(path);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", path,
               std::strerror(errno));
  if (!write_all(file.get(), text) || !file.close()) {
    const int cause = errno;
    ::unlink(temporary.c_str());
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", path,
               std::strerror(cause));
  }
  try {
    commit_file(temporary, path);
  } catch (const UserError&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace rossby
