#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/commands.hpp"
#include "rossby/base/index.hpp"

namespace rossby {

/// Exit code of what was asked to leave: started again, it goes on.
constexpr int exit_resume = 75;

/// Adds --set key=value: one value each time, so that whatever follows is read as itself.
void add_settings(CLI::App& app, std::vector<std::string>& sets, const std::string& help);

/// Adds --no-measure, which sets `measures` to false.
void add_no_measure(CLI::App& app, bool& measures);

/// What --set says of itself where any key may be set.
constexpr const char* set_help =
    "set a configuration key, for example --set train.epochs=20; may be repeated";

/// What --device says of itself where a trained run is opened.
constexpr const char* device_help =
    "device that forecasts: auto, cpu, cuda; default: the device of the training, or cpu if there is no GPU";

/// Runs `act(comm, arguments)` if the subcommand is named; the arguments live as long as the command line.
template <class Arguments, class Act>
void choose(CLI::App& sub, commands::Chosen& chosen, const std::shared_ptr<Arguments>& arguments, Act act) {
  sub.callback([&chosen, arguments, act] {
    chosen = [arguments, act](const Communicator& comm) { return act(comm, *arguments); };
  });
}

/// Checks a whole number of at least `least`, a finite number of at least 0, and one above 0.
[[nodiscard]] CLI::Validator whole_number(Index least);
[[nodiscard]] CLI::Validator non_negative_number();
[[nodiscard]] CLI::Validator positive_number();

/// What is wrong with a command line and what would be right, in one line: unknown subcommands and options
/// come with the nearest known name.
[[nodiscard]] std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace rossby
