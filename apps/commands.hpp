#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "rossby/mpi/environment.hpp"

// One function for each subcommand, in a file of its own under commands/. The function defines the options.
// If the command line names the subcommand, it sets `chosen` to the action. Every rank calls the action,
// which throws the same UserError on every rank or returns the exit code.

namespace rossby::commands {

using Chosen = std::function<int(const Communicator&)>;

void add_train(CLI::App& app, Chosen& chosen);
void add_evaluate(CLI::App& app, Chosen& chosen);
void add_forecast(CLI::App& app, Chosen& chosen);
void add_average(CLI::App& app, Chosen& chosen);
void add_profile(CLI::App& app, Chosen& chosen);
void add_relations(CLI::App& app, Chosen& chosen);
void add_checkpoint(CLI::App& app, Chosen& chosen);
void add_calibrate(CLI::App& app, Chosen& chosen);
void add_plan(CLI::App& app, Chosen& chosen);
void add_graph(CLI::App& app, Chosen& chosen);
void add_report(CLI::App& app, Chosen& chosen);
void add_config(CLI::App& app, Chosen& chosen);

// Subcommands of `rossby data`.
void add_data_inspect(CLI::App& data, Chosen& chosen);
void add_data_synth(CLI::App& data, Chosen& chosen);
void add_data_graph(CLI::App& data, Chosen& chosen);

}  // namespace rossby::commands
