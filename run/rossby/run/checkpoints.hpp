#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/error.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/training_state.hpp"

namespace rossby {

/// Folder of a run's checkpoints.
[[nodiscard]] inline std::string checkpoint_folder_of(const std::string& run) {
  return run + "/checkpoints";
}

/// The folder <run>/checkpoints with its files step-<optimiser steps>.h5. The newest is found by listing:
/// there is no name that a crash could leave pointing at nothing.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] std::string file(Index steps) const;
  /// Paths, newest first; empty where the folder does not exist.
  [[nodiscard]] std::vector<std::string> newest_first() const;
  /// Optimiser steps in a checkpoint's name; −1 where it is none.
  [[nodiscard]] static Index steps(const std::string& path);
  /// Removes all but the `keep` newest.
  void prune(Index keep) const;
  /// Removes those of more than `steps` steps, which a return to an earlier one has left behind.
  void drop_after(Index steps) const;
  /// Removes what a killed process was writing.
  void sweep() const;

 private:
  std::string path_;
};

/// A checkpoint without its arrays; the same on every rank.
struct Checkpoint {
  std::string path;
  std::shared_ptr<const nlohmann::ordered_json> metadata;  // not null
  TrainingState training;
};

/// A checkpoint that is good, but of something else: nothing to skip, the user has to decide.
class BadContinuation : public UserError {
 public:
  using UserError::UserError;
};

/// Reads the metadata of one file. Throws UserError naming file and cause.
[[nodiscard]] Checkpoint read_checkpoint(const std::string& path);

/// The first of rank 0's `candidates` whose metadata is good, which is taken from the list together with
/// those before it: rank 0 says on stderr which are skipped and why. nullopt where none is left. Collective.
[[nodiscard]] std::optional<Checkpoint> next_checkpoint(const Communicator& comm,
                                                        std::vector<std::string>& candidates);

/// Rank 0 says why a checkpoint is not used.
void warn_skipped(const Communicator& comm, const std::string& path, const std::string& why);

/// Refuses settings under which a checkpoint cannot go on, naming keys and both values. Returns `config` with
/// what "auto" meant when the checkpoint was written (parallel.isa, parallel.dense_kernel, relation.update),
/// so that the continuation has the same bits; where that cannot be, rank 0 warns. Collective.
/// The configuration with the files of the series by their names (with_series_names). A run that goes on
/// keeps those that it began with: if data.file names more by now, rank 0 says so. Collective.
[[nodiscard]] Config settle_files(const Communicator& comm, const Config& config,
                                  const std::optional<Checkpoint>& checkpoint);

[[nodiscard]] Config settings_to_resume(const Communicator& comm, const Config& config,
                                        const Checkpoint& checkpoint);

/// Rank 0 warns where a checkpoint of a training on the host was computed with other kernels of the BLAS.
void warn_of_other_blas(const Communicator& comm, const Checkpoint& checkpoint);

/// What is learned differently than before the checkpoint, how long, and what is validated when:
/// "optimiser.lr = 0.01 instead of 0.1".
[[nodiscard]] std::vector<std::string> changes_of_learning(const Config& config,
                                                           const Checkpoint& checkpoint);

/// Drops lines of metrics.jsonl that belong to epochs from `epochs` on.
void cut_metrics(const std::string& path, Index epochs);

}  // namespace rossby
