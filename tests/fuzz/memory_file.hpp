#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <unistd.h>

#include "tests/fuzz/fuzz.hpp"

namespace rossby::fuzz {

/// A temporary file, in memory if the machine has /dev/shm (HDF5 does not create files in a memfd). The
/// destructor removes it.
class MemoryFile {
 public:
  MemoryFile() {
    std::error_code code;
    path_ =
        std::filesystem::is_directory("/dev/shm", code) ? "/dev/shm" : std::filesystem::temp_directory_path();
    path_ += "/rossby_fuzz_XXXXXX";
    const int descriptor = mkstemp(path_.data());
    check(descriptor >= 0, "no room for a file in memory");
    ::close(descriptor);
  }
  explicit MemoryFile(std::string_view content) : MemoryFile() {
    std::FILE* out = std::fopen(path_.c_str(), "wb");
    check(out != nullptr, "a file in memory can be written");
    const bool whole = std::fwrite(content.data(), 1, content.size(), out) == content.size();
    check(std::fclose(out) == 0 && whole, "a file in memory takes what is written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::unlink(path_.c_str()); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rossby::fuzz
