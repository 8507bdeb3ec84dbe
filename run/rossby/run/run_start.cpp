#include "rossby/run/run_start.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/training.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

bool is_file_of(const std::string& file, const std::string& folder) {
  std::error_code code;
  return std::filesystem::equivalent(std::filesystem::path(file).parent_path(), folder, code);
}

}  // namespace

RunStart look_at_run(const Communicator& comm, const TrainOptions& options) {
  const Stage stage(comm, "looking at the run directory", patience_with_files);
  RunStart start;
  const CheckpointFolder folder(checkpoint_folder_of(options.run));
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (std::filesystem::exists(options.run + "/average.json"))
      user_error("{} contains an average of forecasters. Choose another --run directory", options.run);
    const bool is_run = std::filesystem::exists(options.run + "/config.toml");
    if (is_run) start.directory = RunDirectory::open(options.run);
    start.older = folder.newest_first();
    const bool trained = std::filesystem::exists(state_file_of(options.run));
    start.held = trained || !start.older.empty();
    const bool named = options.resume != "auto" && options.resume != "never";
    if (named) (void)read_checkpoint(options.resume);
    if (named && is_run && !is_file_of(options.resume, checkpoint_folder_of(options.run)) && start.held)
      user_error(
          "{} already contains another run, and checkpoint {} does not belong to it. Choose another --run "
          "directory",
          options.run, options.resume);
    if (named)
      start.older = {options.resume};
    else if (options.resume == "never" && start.held)
      user_error(
          "{} already contains a run. Choose another --run directory, or go on with this run (--resume auto)",
          options.run);
    else if (trained && start.older.empty())
      user_error(
          "{} already contains a run without checkpoints. Choose another --run directory, or remove this "
          "directory",
          options.run);
  });
  const bool any = !broadcast(comm, start.older.empty() ? "" : "some").empty();
  start.checkpoint = next_checkpoint(comm, start.older);
  if (options.write_state && !any)
    user_error("{}: there is no checkpoint whose state could be written. Leave --write-state out to train",
               checkpoint_folder_of(options.run));
  if (any && !start.checkpoint)
    user_error("{}: all checkpoints are damaged. Remove these checkpoints to start anew",
               checkpoint_folder_of(options.run));
  return start;
}

void prepare_run(RunStart& start, const Config& config, const std::string& run) {
  if (!start.directory) {
    start.directory = RunDirectory::create(run);
    // The directory was not locked while the data were read.
    const bool holds = std::filesystem::exists(state_file_of(run)) ||
                       !CheckpointFolder(checkpoint_folder_of(run)).newest_first().empty();
    if (holds && !start.held)
      user_error(
          "{}: another process has meanwhile trained a run in this directory. Choose another --run "
          "directory, or start again to go on with this run",
          run);
  }
  const RunDirectory& directory = *start.directory;
  if (!start.checkpoint) std::filesystem::remove(directory.metrics_file());
  directory.make_checkpoints();
  CheckpointFolder(directory.checkpoints()).sweep();
  if (start.checkpoint && is_file_of(start.checkpoint->path, directory.checkpoints()))
    CheckpointFolder(directory.checkpoints()).drop_after(start.checkpoint->training.steps);
  atomic_write(directory.config_file(), config.to_toml());
}

/// A shared file system may show a new directory late.
void expect_shared_run(const Communicator& comm, const std::string& run) {
  agree(comm, [&] {
    const std::string folder = checkpoint_folder_of(run);
    for (int tries = 0; !std::filesystem::is_directory(folder); ++tries) {
      if (tries == 50)
        user_error(
            "{}: the directory does not exist on this host. Put the run directory on a file system "
            "that all hosts share",
            folder);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
}

bool has_final_state(const std::string& run, const TrainingState& at) {
  if (!std::filesystem::exists(state_file_of(run))) return false;
  try {
    const Json metadata = Json::parse(read_state_metadata(state_file_of(run)), nullptr, false);
    if (!metadata.is_object() || metadata.value("optimiser_steps", Index{-1}) != at.steps ||
        metadata.value("epochs", Index{-1}) != at.epoch + (at.batch > 0 ? 1 : 0))
      return false;
    verify_state(state_file_of(run));
    return true;
  } catch (const UserError& error) {  // the state is written anew
    fmt::print(stderr, "rossby: warning: {}; the run goes on from its checkpoint\n", error.what());
    return false;
  }
}

bool is_damaged(const std::string& record) {
  try {
    verify_state(record);
    return false;
  } catch (const UserError&) {
    return true;
  }
}

bool restore_configuration(RunStart& start, const Config& config, const std::string& run) {
  if (start.directory) return false;
  start.directory = RunDirectory::create(run);
  const Json metadata = Json::parse(read_state_metadata(state_file_of(run)), nullptr, false);
  std::string trained = config.to_toml();
  if (metadata.is_object()) trained = metadata.value("config", trained);
  atomic_write(start.directory->config_file(), trained);
  return true;
}

}  // namespace rossby
