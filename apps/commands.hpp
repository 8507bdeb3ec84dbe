#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "rossby/mpi/environment.hpp"

// One function for each subcommand, in a file of its own under commands/: it defines the options, and when
// the command line names the subcommand it sets `chosen` to what is to be done. That is called on every rank,
// throws the same UserError on every rank if something is wrong, and returns the exit code.

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

// Below `rossby data`.
void add_data_inspect(CLI::App& data, Chosen& chosen);
void add_data_synth(CLI::App& data, Chosen& chosen);
void add_data_graph(CLI::App& data, Chosen& chosen);

}  // namespace rossby::commands
