#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "rossby/base/index.hpp"

namespace rossby::detail {

/// Parses a text that is one finite number; none if it is anything else.
[[nodiscard]] std::optional<double> finite_number(std::string_view text);

/// Calls `use(line number from 1, fields)` for every non-empty line of comma-separated values. Strips blanks
/// and quotes around fields, and a byte order mark.
void for_table_lines(std::string_view text,
                     const std::function<void(Index, std::span<const std::string_view>)>& use);

}  // namespace rossby::detail
