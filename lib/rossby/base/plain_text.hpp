#pragma once

#include <exception>
#include <string_view>

namespace rossby {

/// Returns the text of an error for a user, without "[json.exception.out_of_range.403] ", which the JSON
/// library puts first. The text lives as long as the error.
[[nodiscard]] inline std::string_view plain_text(const std::exception& error) {
  std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  if (text.starts_with("[json.exception.") && end != std::string_view::npos) text.remove_prefix(end + 2);
  return text;
}

}  // namespace rossby
