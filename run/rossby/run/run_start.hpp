#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rossby/io/run_directory.hpp"
#include "rossby/run/checkpoints.hpp"
#include "rossby/run/train.hpp"

namespace rossby {

/// The contents of a run directory when a training starts, and the checkpoint to go on from. Paths are rank
/// 0's.
struct RunStart {
  std::optional<RunDirectory> directory;  // rank 0
  std::optional<Checkpoint> checkpoint;   // to go on from
  std::vector<std::string> older;         // rank 0: to try if the arrays of `checkpoint` are damaged
  bool held = false;                      // rank 0: there was a state or a checkpoint
};

/// Takes the lock on rank 0 if a directory holds a run, and looks for checkpoints. Other directories are not
/// touched yet. Collective.
[[nodiscard]] RunStart look_at_run(const Communicator& comm, const TrainOptions& options);

/// Prepares the directory of a training that goes on, or of a new one. Replaces a run that ended before it
/// had a checkpoint. Writes config.toml. On rank 0.
void prepare_run(RunStart& start, const Config& config, const std::string& run);

/// Throws UserError if a rank does not see the run directory: before the first step, not at the first
/// checkpoint. Collective.
void expect_shared_run(const Communicator& comm, const std::string& run);

/// True if the run's state is the end state of this checkpoint. On rank 0.
[[nodiscard]] bool has_final_state(const std::string& run, const TrainingState& at);

/// True if a state file is missing or damaged. On rank 0.
[[nodiscard]] bool is_damaged(const std::string& file);

/// Writes the configuration of an ended run if config.toml is missing: that of its state, or `config` if an
/// old version has written the state. Returns whether. On rank 0.
bool restore_configuration(RunStart& start, const Config& config, const std::string& run);

}  // namespace rossby
