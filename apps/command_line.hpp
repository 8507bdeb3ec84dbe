#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "rossby/base/index.hpp"

namespace rossby {

/// Adds --set key=value: one value each time, so that whatever follows is read as itself.
void add_settings(CLI::App& app, std::vector<std::string>& sets, const std::string& help);

/// Checks a whole number of at least `least`, a number of at least 0.
[[nodiscard]] CLI::Validator whole_number(Index least);
[[nodiscard]] CLI::Validator non_negative_number();

/// What is wrong with a command line and what would be right, in one line: unknown subcommands and options
/// come with the nearest known name.
[[nodiscard]] std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace rossby
