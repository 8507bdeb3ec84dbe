#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rossby/base/error.hpp"
#include "rossby/io/run_directory.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/data_record.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// The run directory of a subcommand: rank 0 holds it and its lock, every rank knows its configuration.
struct OpenRun {
  std::optional<RunDirectory> directory;  // rank 0 only
  Config config;
  std::string state;                         // file with the model's parameters
  bool other_file = false;                   // data.file is not that of the training,
  PathList trained_on;                       // which are these
  std::string trained_graph;                 // relation.file of the training
  Index epochs = -1;                         // that the state was trained for; -1: it does not say
  std::string remark;                        // a line that evaluate and forecast print; empty: nothing
  bool accepts = false;                      // data whose training part has changed,
  std::shared_ptr<const DataRecord> record;  // from this; null: none is asked for, or none was kept

  /// Where rank 0 writes: the file that was asked for, or `usual` of the run directory. Throws UserError
  /// where that may not be written, or would replace what is read.
  [[nodiscard]] std::string output(const std::string& asked, const std::string& usual) const;
};

/// Whether two lists are of the same files, whatever their names.
[[nodiscard]] bool same_files(const PathList& a, const PathList& b);

/// Whether one of Config::differences is of data.file or relation.file: these may have moved, and what is in
/// them is held against a hash.
[[nodiscard]] bool names_file(const std::string& difference);

/// Whether one of Config::differences is of the parts that a batch is computed in, which only a model with
/// batch normalisation computes something else in.
[[nodiscard]] bool cuts_batches(const Config& config, const std::string& difference);

/// Opens a trained run and applies `sets`, of which only harmless keys, split.test, data.file and
/// relation.file are allowed: files with the same training part and graph, which ModelRun::load checks.
/// Training and validation part are those that the state was trained with. `device`: parallel.device; empty:
/// as `sets` or the training has it, but that a run which was trained on a GPU may be opened where there is
/// none. `accepts`: data whose training part has changed, or begins later, which ModelRun::load reports.
/// Collective.
[[nodiscard]] OpenRun open_run(const Communicator& comm, const std::string& path,
                               std::span<const std::string> sets, const std::string& device,
                               bool accepts = false);

/// Returns what `work` returns. Of its errors, those of too little memory of a device say that the cores
/// could do the same.
template <class Work>
auto or_on_the_cores(const Work& work) {
  try {
    return work();
  } catch (const UserError& error) {
    const std::string what = error.what();
    if (what.find("out of device memory") == std::string::npos) throw;
    throw UserError(what + ", or --device cpu");
  }
}

/// Opens a run and returns what `work.operator()<T>(ranks, open)` returns, T being the precision of its
/// model. The ranks of `comm` are one run meanwhile, and are watched. Collective.
template <class Work>
auto with_run(const Communicator& comm, const std::string& path, std::span<const std::string> sets,
              const std::string& device, bool accepts, const Work& work) {
  return as_run(comm, [&](const Communicator& ranks) {
    const OpenRun open = open_run(ranks, path, sets, device, accepts);
    const Watch watching(ranks, open.config.parallel.watchdog_seconds, path);
    return or_on_the_cores([&] {
      return open.config.model.precision == "double" ? work.template operator()<double>(ranks, open)
                                                     : work.template operator()<float>(ranks, open);
    });
  });
}

/// With data.cycle = "auto": what the training came to stays, as its state or checkpoint has it.
void keep_cycle(Config& config, const std::string& decided);

/// Where a run keeps its state: <run>/checkpoints/state.h5.
[[nodiscard]] std::string state_file_of(const std::string& run);

/// The training of train.refit whose validation part chose the epochs of a run: <run>/chosen.
[[nodiscard]] std::string chosen_run_of(const std::string& run);

}  // namespace rossby
