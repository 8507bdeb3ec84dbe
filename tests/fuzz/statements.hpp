#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace rossby::fuzz {

/// One line of an input: words separated by blanks. A word in double quotes may hold blanks and \n, \t, \\,
/// \", \xHH.
struct Statement {
  std::vector<std::string> words;

  /// Returns word `i`; empty if there is none.
  [[nodiscard]] const std::string& word(std::size_t i) const {
    static const std::string none;
    return i < words.size() ? words[i] : none;
  }
  /// Returns word `i` as C's strtod reads it (also nan, inf and hexadecimal numbers); 0 if it is no number.
  [[nodiscard]] double real(std::size_t i) const { return std::strtod(word(i).c_str(), nullptr); }
  /// Returns word `i` as a 64-bit integer, saturated; 0 if it is no integer.
  [[nodiscard]] std::int64_t integer(std::size_t i) const {
    return std::strtoll(word(i).c_str(), nullptr, 10);
  }
};

namespace detail {
/// Returns the character after a backslash at `at`, and advances `at`.
inline char escaped(std::string_view line, std::size_t& at) {
  const char c = line[at++];
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c != 'x' || at + 2 > line.size()) return c;
  const std::string digits(line.substr(at, 2));
  at += 2;
  return static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
}
}  // namespace detail

inline Statement read_statement(std::string_view line) {
  Statement statement;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
      ++at;
      continue;
    }
    const bool quoted = line[at] == '"';
    if (quoted) ++at;
    std::string word;
    while (at < line.size() && (quoted ? line[at] != '"' : line[at] != ' ' && line[at] != '\t')) {
      const char c = line[at++];
      word += quoted && c == '\\' && at < line.size() ? detail::escaped(line, at) : c;
    }
    if (quoted && at < line.size()) ++at;
    statement.words.push_back(std::move(word));
  }
  return statement;
}

/// Returns the lines of an input that are neither empty nor comments (#).
inline std::vector<Statement> read_statements(std::string_view text) {
  std::vector<Statement> statements;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Statement statement = read_statement(text.substr(0, end));
    if (!statement.words.empty() && !statement.words[0].starts_with('#'))
      statements.push_back(std::move(statement));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return statements;
}

}  // namespace rossby::fuzz
