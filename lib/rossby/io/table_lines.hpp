#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "rossby/base/index.hpp"

namespace rossby::detail {

/// A finite number that is all of a text; none where it is anything else.
[[nodiscard]] std::optional<double> finite_number(std::string_view text);

/// Calls `use(line number from 1, fields)` for every line of comma-separated values that is not empty. Blanks
/// and quotes around a field are left out, as is a byte order mark.
void for_table_lines(std::string_view text,
                     const std::function<void(Index, std::span<const std::string_view>)>& use);

}  // namespace rossby::detail
