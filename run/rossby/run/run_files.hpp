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

/// An opened run directory: rank 0 holds it and its lock, every rank knows its configuration.
struct OpenRun {
  std::optional<RunDirectory> directory;  // rank 0 only
  Config config;
  std::string state;                         // file with the model's parameters
  bool other_file = false;                   // data.file is not `trained_on`
  PathList trained_on;                       // data.file of the training
  std::string trained_graph;                 // relation.file of the training
  Index epochs = -1;                         // that the state was trained for; -1: unknown
  std::string remark;                        // a line that evaluate and forecast print; empty: nothing
  bool accepts = false;                      // accepts a changed training part
  std::shared_ptr<const DataRecord> record;  // of the training's data; null: not requested, or not kept

  /// Returns the file that rank 0 writes: `asked`, or `usual` of the run directory. Throws UserError if it
  /// may not be written, or would replace an input.
  [[nodiscard]] std::string output(const std::string& asked, const std::string& usual) const;
};

/// True if two lists are of the same files, whatever their names.
[[nodiscard]] bool same_files(const PathList& a, const PathList& b);

/// True if one of Config::differences is of data.file or relation.file. These files may have moved; a hash
/// checks their content.
[[nodiscard]] bool names_file(const std::string& difference);

/// True if one of Config::differences is of window.micro_batches and does not matter. These parts of a batch
/// matter only to a model with batch normalisation.
[[nodiscard]] bool cuts_batches(const Config& config, const std::string& difference);

/// Opens a trained run and applies `sets`. Only harmless keys, split.test, data.file and relation.file are
/// allowed; ModelRun::load checks that new files have the same training part and graph. Training and
/// validation parts are those of the state. `device`: parallel.device; empty: as in `sets` or the training,
/// but a run that was trained on a GPU also opens without one. `accepts`: data whose training part has
/// changed or begins later, which ModelRun::load reports. Collective.
[[nodiscard]] OpenRun open_run(const Communicator& comm, const std::string& path,
                               std::span<const std::string> sets, const std::string& device,
                               bool accepts = false);

/// Returns what `work` returns. If a device has too little memory, the error also names --device cpu.
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

/// Opens a run and returns what `work.operator()<T>(ranks, open)` returns, where T is the precision of its
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

/// Keeps what the training chose, as its state or checkpoint holds it: the cycle `decided` if data.cycle is
/// "auto", and the choices `base` of model.base_forecast.
void keep_choices(Config& config, const std::string& decided, const std::string& base);

/// Returns the path of a run's state: <run>/checkpoints/state.h5.
[[nodiscard]] std::string state_file_of(const std::string& run);

/// Returns <run>/chosen: of a run with train.refit, the training whose validation part chose the epochs.
[[nodiscard]] std::string chosen_run_of(const std::string& run);

}  // namespace rossby
