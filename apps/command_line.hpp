#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/commands.hpp"
#include "rossby/base/index.hpp"

namespace rossby {

/// Exit code of a command that was asked to leave and goes on if it is started again.
constexpr int exit_resume = 75;

/// Adds --set key=value. Each --set takes one value, so that the next word is read as itself.
void add_settings(CLI::App& app, std::vector<std::string>& sets, const std::string& help);

/// Adds --no-measure, which sets `measures` to false.
void add_no_measure(CLI::App& app, bool& measures);

/// Help text of --set for commands that accept any key.
constexpr const char* set_help =
    "set a configuration key, for example --set train.epochs=20; may be repeated";

/// Help text of --device for commands that open a trained run.
constexpr const char* device_help =
    "device that forecasts: auto, cpu, cuda; default: the device of the training, or cpu if there is no GPU";

/// Runs `act(comm, arguments)` if the subcommand is named; the arguments live as long as the command line.
template <class Arguments, class Act>
void choose(CLI::App& sub, commands::Chosen& chosen, const std::shared_ptr<Arguments>& arguments, Act act) {
  sub.callback([&chosen, arguments, act] {
    chosen = [arguments, act](const Communicator& comm) { return act(comm, *arguments); };
  });
}

/// Validators of a whole number of at least `least`, a finite number of at least 0, and one above 0.
[[nodiscard]] CLI::Validator whole_number(Index least);
[[nodiscard]] CLI::Validator non_negative_number();
[[nodiscard]] CLI::Validator positive_number();

/// Returns in one line what is wrong with a command line and what would be right. For an unknown subcommand
/// or option the line names the nearest known one.
[[nodiscard]] std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace rossby
