#include "rossby/base/error.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "rossby/base/user_error.hpp"

namespace rossby {

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

void throw_user_error(fmt::string_view format, fmt::format_args arguments) {
  throw UserError(fmt::vformat(format, arguments));
}

void bug(std::string_view what, std::source_location where) {
  throw BugError(fmt::format("internal error at {}:{} ({}): {}", where.file_name(), where.line(),
                             where.function_name(), what));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace rossby
