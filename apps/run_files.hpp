#pragma once

#include <optional>
#include <span>
#include <string>

#include "rossby/io/config.hpp"
#include "rossby/io/run_directory.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// The run directory of a subcommand: rank 0 holds it and its lock, every rank knows its configuration.
struct OpenRun {
  std::optional<RunDirectory> directory;  // rank 0 only
  Config config;
  std::string state;  // file with the model's parameters
};

/// Opens a trained run and applies `sets`, of which only harmless keys are allowed. Collective.
[[nodiscard]] OpenRun open_run(const Communicator& comm, const std::string& path,
                               std::span<const std::string> sets);

/// Where a run keeps its state: <run>/checkpoints/state.h5.
[[nodiscard]] std::string state_file_of(const std::string& run);

}  // namespace rossby
