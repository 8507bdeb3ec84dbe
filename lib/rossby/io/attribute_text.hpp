#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rossby {

/// The text as UTF-8: itself if it is valid UTF-8, otherwise its bytes read as Latin-1 (ISO 8859-1).
[[nodiscard]] std::string utf8_text(std::string_view text);

/// Strips a file's padding: ends the text at the first NUL, trims white space and quotes around all of it,
/// and returns UTF-8.
[[nodiscard]] std::string clean_text(std::string_view text);

/// Converts ASCII characters to lower case.
[[nodiscard]] std::string lower_case(std::string_view text);

/// The numbers that a text lists, separated by blanks or commas: "0.1", "-99.9f", "0, 100", "NaN". A type
/// letter of CDL after a number (f, d, s, b, L) is allowed. None if the text holds anything else or is empty.
[[nodiscard]] std::optional<std::vector<double>> numbers_in_text(std::string_view text);

}  // namespace rossby
