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

/// The folder <run>/checkpoints with its files step-<optimiser steps>.h5. The newest file is found by
/// listing, because a crash could leave a name that points at nothing.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] std::string file(Index steps) const;
  /// Returns paths, newest first; empty if the folder does not exist.
  [[nodiscard]] std::vector<std::string> newest_first() const;
  /// Returns the optimiser steps in a checkpoint's name; −1 if the name has another form.
  [[nodiscard]] static Index steps(const std::string& path);
  /// Removes all but the `keep` newest files.
  void prune(Index keep) const;
  /// Removes files of more than `steps` steps, which a return to an earlier checkpoint has left behind.
  void drop_after(Index steps) const;
  /// Removes files that a killed process was writing.
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

/// A good checkpoint of something else. It is not skipped: the user has to decide.
class BadContinuation : public UserError {
 public:
  using UserError::UserError;
};

/// Reads the metadata of one file. Throws UserError naming file and cause.
[[nodiscard]] Checkpoint read_checkpoint(const std::string& path);

/// Returns the first of rank 0's `candidates` with good metadata; nullopt if none is left. Removes it and
/// those before it from the list. Rank 0 prints on stderr which are skipped and why. Collective.
[[nodiscard]] std::optional<Checkpoint> next_checkpoint(const Communicator& comm,
                                                        std::vector<std::string>& candidates);

/// Prints on rank 0 why a checkpoint is not used.
void warn_skipped(const Communicator& comm, const std::string& path, const std::string& why);

/// Returns the configuration with the files of the series by their names (with_series_names). A run that goes
/// on keeps the files that it began with; if data.file names more by now, rank 0 warns. Collective.
[[nodiscard]] Config settle_files(const Communicator& comm, const Config& config,
                                  const std::optional<Checkpoint>& checkpoint);

/// Returns `config` with what "auto" meant when the checkpoint was written (parallel.isa,
/// parallel.dense_kernel, relation.update), so that results are bitwise the same. Rank 0 warns if that is
/// impossible. Throws BadContinuation naming keys and both values if the settings do not fit the checkpoint.
/// Collective.
[[nodiscard]] Config settings_to_resume(const Communicator& comm, const Config& config,
                                        const Checkpoint& checkpoint);

/// Warns on rank 0 if a checkpoint of a training on the host was computed with other BLAS kernels.
void warn_of_other_blas(const Communicator& comm, const Checkpoint& checkpoint);

/// Returns changes of learning, training length and validation since the checkpoint: "optimiser.lr = 0.01
/// instead of 0.1".
[[nodiscard]] std::vector<std::string> changes_of_learning(const Config& config,
                                                           const Checkpoint& checkpoint);

/// Drops lines of metrics.jsonl that belong to epochs from `epochs` on.
void cut_metrics(const std::string& path, Index epochs);

}  // namespace rossby
