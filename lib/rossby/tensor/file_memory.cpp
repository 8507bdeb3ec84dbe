#include "rossby/tensor/file_memory.hpp"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

std::string text_of(int error) {
  return std::generic_category().message(error);
}

/// Opens an unnamed file in `folder`.
int unnamed_file(const std::string& folder) {
#if defined(O_TMPFILE)
  if (const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); file >= 0) return file;
#endif
  // For file systems without unnamed files (NFS).
  std::string name = folder + "/rossby-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0)
    user_error("{}: cannot create a file in this folder: {}. Name another folder with relation.stream_folder",
               folder, text_of(errno));
  ::unlink(name.c_str());
  return file;
}

}  // namespace

FileMemory::FileMemory(const std::string& folder, std::size_t bytes) : folder_(folder), bytes_(bytes) {
  if (bytes == 0) return;
  file_ = unnamed_file(folder);
  // Reserve the space now: running out later would end the process with a signal.
  const int error = ::posix_fallocate(file_, 0, static_cast<off_t>(bytes));
  void* mapped = error ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) {
    const int cause = error ? error : errno;
    ::close(file_);
    user_error("{}: cannot store a file of {:.3f} GiB: {}. Name another folder with relation.stream_folder",
               folder, static_cast<double>(bytes) / (1 << 30), text_of(cause));
  }
  data_ = static_cast<std::byte*>(mapped);
}

FileMemory::~FileMemory() {
  if (data_) ::munmap(data_, bytes_);
  if (file_ >= 0) ::close(file_);
}

void FileMemory::read(std::size_t at, std::span<std::byte> to) const {
  require(at + to.size() <= bytes_, "a piece lies in the file");
  while (!to.empty()) {
    const ssize_t got = ::pread(file_, to.data(), to.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      user_error(
          "a file in {} cannot be read: {}. Check the disk, or name another folder with "
          "relation.stream_folder",
          folder_, got < 0 ? text_of(errno) : "it is too short");
    at += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void FileMemory::write(std::size_t at, std::span<const std::byte> from) {
  require(at + from.size() <= bytes_, "a piece lies in the file");
  while (!from.empty()) {
    const ssize_t put = ::pwrite(file_, from.data(), from.size(), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      user_error(
          "a file in {} cannot be written: {}. Check the disk, or name another folder with "
          "relation.stream_folder",
          folder_, text_of(errno));
    at += static_cast<std::size_t>(put);
    from = from.subspan(static_cast<std::size_t>(put));
  }
}

void FileMemory::forget_pages() {
  if (data_) (void)::madvise(data_, bytes_, MADV_DONTNEED);
}

}  // namespace rossby
