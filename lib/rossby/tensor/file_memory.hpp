#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rossby {

/// Zeros in an unnamed file, which disappears with the process however it ends. The file is read and written
/// in pieces. It is also mapped, for rare accesses: the system loads pages on access and drops them if memory
/// is short.
class FileMemory {
 public:
  /// Creates the file in `folder` and reserves its space at once. Throws UserError with folder and size if
  /// that fails.
  FileMemory(const std::string& folder, std::size_t bytes);
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The mapping, aligned to a page.
  [[nodiscard]] std::byte* data() { return data_; }

  /// Throw UserError if the file system fails.
  void read(std::size_t at, std::span<std::byte> to) const;
  void write(std::size_t at, std::span<const std::byte> from);

  /// Drops the mapping's pages from this process's resident memory. Their content stays in the file.
  void forget_pages();

 private:
  std::string folder_;
  std::size_t bytes_ = 0;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace rossby
