#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.hpp"

namespace rossby::fuzz {

/// A temporary folder, in memory if the machine has /dev/shm. The destructor removes it.
class MemoryFolder {
 public:
  MemoryFolder() {
    std::error_code code;
    path_ =
        std::filesystem::is_directory("/dev/shm", code) ? "/dev/shm" : std::filesystem::temp_directory_path();
    path_ += "/rossby_fuzz_XXXXXX";
    check(mkdtemp(path_.data()) != nullptr, "no room for a folder in memory");
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }

  [[nodiscard]] const std::string& path() const { return path_; }

  /// Returns the path of a file or folder in it for any name. The path never leaves the folder. Empty if the
  /// name has no valid part.
  [[nodiscard]] std::string in(std::string_view name) const {
    constexpr std::size_t longest = 100;
    std::string path = path_;
    std::size_t at = 0, depth = 0;
    while (at < name.size() && name.size() <= longest && depth++ < 4) {
      const std::size_t end = std::min(name.find('/', at), name.size());
      const std::string_view part = name.substr(at, end - at);
      if (!part.empty() && part != "." && part != ".." && part.find('\0') == std::string_view::npos)
        (path += '/') += part;
      at = end + 1;
    }
    return path == path_ ? "" : path;
  }

  void put(std::string_view name, std::string_view content) const {
    const std::string path = in(name);
    std::error_code code;
    if (path.empty()) return;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), code);
    std::ofstream(path, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

}  // namespace rossby::fuzz
