#include "rossby/io/table_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace rossby::detail {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\"";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

}  // namespace

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

void for_table_lines(std::string_view text,
                     const std::function<void(Index, std::span<const std::string_view>)>& use) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // byte order mark
  std::vector<std::string_view> fields;
  for (Index line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (trimmed(rest).empty()) continue;
    fields.clear();
    for (;;) {
      const auto comma = rest.find(',');
      fields.push_back(trimmed(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    use(line, fields);
  }
}

}  // namespace rossby::detail
