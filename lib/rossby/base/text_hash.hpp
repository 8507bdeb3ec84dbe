#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace rossby {

/// FNV-1a hash (Fowler, Noll, Vo) of a text given in pieces. The text of all nodes would need more memory
/// than the nodes that a rank owns.
class TextHash {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  }
  template <class... Values>
  void add_format(fmt::format_string<Values...> format, Values&&... values) {
    piece_.clear();
    fmt::format_to(std::back_inserter(piece_), format, std::forward<Values>(values)...);
    add({piece_.data(), piece_.size()});
  }
  /// Adds the values, separated by blanks.
  template <class Range>
  void add_list(const Range& values) {
    std::string_view between = "";
    for (const auto& value : values) {
      add_format("{}{}", between, value);
      between = " ";
    }
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325ull;
  fmt::memory_buffer piece_;
};

}  // namespace rossby
