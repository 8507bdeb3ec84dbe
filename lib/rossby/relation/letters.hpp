#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "rossby/base/error.hpp"

namespace rossby {

/// One message per part, for Mailbox::swap.
using Letters = std::vector<std::vector<std::byte>>;

/// Appends the bytes of plain values to a message.
template <class T>
void write(std::vector<std::byte>& letter, std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (values.empty()) return;
  const std::size_t at = letter.size();
  letter.resize(at + values.size_bytes());
  std::memcpy(letter.data() + at, values.data(), values.size_bytes());
}

template <class T>
void write(std::vector<std::byte>& letter, const T& value) {
  write(letter, std::span<const T>(&value, 1));
}

/// Reads a message from its start, in the order of writing.
class LetterReader {
 public:
  explicit LetterReader(std::span<const std::byte> letter) : rest_(letter) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }

  template <class T>
  [[nodiscard]] T read() {
    T value;
    read(std::span<T>(&value, 1));
    return value;
  }

  template <class T>
  void read(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    require(values.size_bytes() <= rest_.size(), "a letter ends too early");
    if (values.empty()) return;
    std::memcpy(values.data(), rest_.data(), values.size_bytes());
    rest_ = rest_.subspan(values.size_bytes());
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace rossby
