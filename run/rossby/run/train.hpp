#pragma once

#include <functional>
#include <limits>
#include <string>

#include "rossby/mpi/environment.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// How a training is started beside its configuration. The same on every rank, but for `pause`.
struct TrainOptions {
  std::string run;              // run directory, made if it is not there; all ranks see it
  std::string resume = "auto";  // auto: go on from the newest good checkpoint; never; or a checkpoint's file
  std::string machine;          // measurements of `rossby calibrate`: predicts the training; empty: does not
  bool measures = true;         // calls of the training that the machine's file lacks, into that file
  std::string record;           // file that asynchronous updates are written to; empty: they are not
  std::string replay;           // file of such a training, which is repeated; empty: none is
  bool write_state = false;     // writes the state of the newest checkpoint and trains no step
  bool signals = false;         // SIGTERM, SIGINT and SIGUSR1 ask for a pause, if checkpoints are kept
  bool prints = false;          // rank 0 prints what `rossby train` does
  std::function<bool()>
      pause;           // asked before each step; true on any rank: checkpoint, and return; may be empty
  Index pause_at = 0;  // pause after so many optimiser steps of the training, unless it ends there; 0: never
};

/// How a start of a training ended; the same on every rank.
struct Trained {
  TrainingResult result;   // reason StopReason::paused: train it again to go on
  std::string why_paused;  // a signal, train.stop_after, the end of the job, or the caller; empty: not paused
  bool had_ended = false;  // an earlier start had trained all of it: nothing was changed
  std::string checkpoint;  // that this start wrote last, or went on from; empty: none
  Index all_steps = 0;     // optimiser steps of train.epochs
  double validation = std::numeric_limits<double>::quiet_NaN();  // error where TrainOptions::pause_at paused
  double validation_seconds = 0;                                 // that it took
};

/// Trains `config` into options.run: config.toml, metrics.jsonl, checkpoints/ with the state that `evaluate`
/// and `forecast` read. A run directory that holds checkpoints of the same configuration is gone on with, at
/// any number of ranks.
///
/// Throws UserError on every rank of `comm`: bad configuration or data, values that are not finite, too
/// little memory. The caller may catch it and go on with another run; checkpoints stay as they are.
/// Collective over `comm`, which may be a part of the job: other parts may run something else at the same
/// time, in other run directories.
Trained train(const Communicator& comm, const Config& config, const TrainOptions& options);

/// The most memory that a rank of `comm` has taken so far, in bytes. Collective.
[[nodiscard]] double worst_peak_resident(Reducer& reducer);

}  // namespace rossby
