#pragma once

#include <fmt/core.h>

#include "rossby/base/error.hpp"

// Separate from error.hpp, because most sources throw no UserError and need not parse fmt.

namespace rossby {

/// Throws UserError with the formatted message.
[[noreturn]] void throw_user_error(fmt::string_view format, fmt::format_args arguments);

/// Throws UserError with a formatted one-line message.
template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw_user_error(format, fmt::make_format_args(args...));
}

}  // namespace rossby
