#include "rossby/io/attribute_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace rossby {
namespace {

/// Bytes of the UTF-8 character at the front; 0 if there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t k) {
    return k < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[k])) : 0U;
  };
  const auto follows = [&](std::size_t k) { return (byte(k) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second >= 0xA0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool outside = (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
    return follows(1) && follows(2) && follows(3) && !outside ? 4 : 0;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

std::string utf8_text(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xC0U | (byte >> 6U));
      out += static_cast<char>(0x80U | (byte & 0x3FU));
    }
  }
  return out;
}

std::string clean_text(std::string_view text) {
  std::string clean = utf8_text(text.substr(0, text.find('\0')));
  for (char& c : clean)  // including terminal control characters
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  constexpr std::string_view blanks[] = {" ", "\u00a0", "\u3000", "\u200b", "\ufeff"};
  std::string_view rest = clean;
  const auto trim = [&](std::string_view blank) {
    if (rest.starts_with(blank))
      rest.remove_prefix(blank.size());
    else if (rest.ends_with(blank))
      rest.remove_suffix(blank.size());
    else
      return false;
    return true;
  };
  const auto unquote = [&] {
    const bool quoted = rest.size() > 2 && rest.front() == rest.back() &&
                        (rest.front() == '"' || rest.front() == '\'') &&
                        rest.find(rest.front(), 1) == rest.size() - 1;
    if (quoted) rest = rest.substr(1, rest.size() - 2);
    return quoted;
  };
  while (std::any_of(std::begin(blanks), std::end(blanks), trim) || unquote()) {
  }
  return std::string(rest);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

std::optional<std::vector<double>> numbers_in_text(std::string_view text) {
  constexpr std::string_view separators = " \t\r\n,;";
  std::vector<double> numbers;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) break;
    std::string_view word = text.substr(0, text.find_first_of(separators));
    text.remove_prefix(word.size());
    if (word.starts_with('+')) word.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const std::string_view behind = word.substr(static_cast<std::size_t>(end - word.data()));
    constexpr std::string_view type_letters = "fFdDsSbBlL";
    const bool typed = behind.size() == 1 && type_letters.find(behind.front()) != std::string_view::npos;
    if (error != std::errc() || (!behind.empty() && !typed)) return std::nullopt;
    numbers.push_back(value);
  }
  if (numbers.empty()) return std::nullopt;
  return numbers;
}

}  // namespace rossby
