#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rossby {

/// Zeros in an unnamed file: gone with the process, however it ends. It can be read and written in pieces,
/// and it is mapped, for what is rare: the system brings pages in as they are touched and takes them away
/// where memory is short.
class FileMemory {
 public:
  /// In `folder`, whose file system gives the space at once. Throws UserError naming folder and size where it
  /// does not.
  FileMemory(const std::string& folder, std::size_t bytes);
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The mapping, aligned to a page.
  [[nodiscard]] std::byte* data() { return data_; }

  /// Throw UserError where the file system fails.
  void read(std::size_t at, std::span<std::byte> to) const;
  void write(std::size_t at, std::span<const std::byte> from);

  /// Takes the mapping's pages out of this process's resident memory. What they hold stays.
  void forget_pages();

 private:
  std::string folder_;
  std::size_t bytes_ = 0;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace rossby
