#pragma once

#include <functional>
#include <limits>
#include <string>

#include "rossby/mpi/environment.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Options of a training besides its configuration. The same on every rank, except `pause`.
struct TrainOptions {
  std::string run;              // run directory, made if it is missing; all ranks see it
  std::string resume = "auto";  // auto: go on from the newest good checkpoint; never; or a checkpoint file
  std::string machine;          // `rossby calibrate` file for a prediction; empty: no prediction
  bool measures = true;         // measure calls that the machine's file lacks, and add them to it
  std::string record;           // file to which asynchronous updates are recorded; empty: none
  std::string replay;           // file of such a training to repeat; empty: none
  bool write_state = false;     // write the state of the newest checkpoint, train no step
  bool signals = false;         // SIGTERM, SIGINT and SIGUSR1 ask for a pause, if checkpoints are kept
  bool prints = false;          // rank 0 prints what `rossby train` does
  std::function<bool()> pause;  // before each step: true on any rank checkpoints and returns; may be empty
  Index pause_at = 0;  // pause after so many optimiser steps, unless the training ends there; 0: never
};

/// The result of a start of a training; the same on every rank.
struct Trained {
  TrainingResult result;   // reason StopReason::paused: train again to go on
  std::string why_paused;  // a signal, train.stop_after, the end of the job, or the caller; empty: not paused
  bool had_ended = false;  // an earlier start had trained all of it: nothing was changed
  std::string checkpoint;  // last one that this start wrote or went on from; empty: none
  Index all_steps = 0;     // optimiser steps of train.epochs
  double validation = std::numeric_limits<double>::quiet_NaN();  // error at TrainOptions::pause_at
  double validation_seconds = 0;                                 // time that it took
};

/// Trains `config` into options.run: config.toml, metrics.jsonl, and checkpoints/ with the state that
/// `evaluate` and `forecast` read. Goes on with a run directory that holds checkpoints of the same
/// configuration, on any number of ranks.
///
/// Throws UserError on every rank of `comm`: bad configuration or data, values that are not finite, or too
/// little memory. The caller may catch it and go on with another run; checkpoints stay as they are.
/// Collective over `comm`, which may be a part of the job: other parts may run something else at the same
/// time, in other run directories.
Trained train(const Communicator& comm, const Config& config, const TrainOptions& options);

/// Returns the most memory that a rank of `comm` has taken so far, in bytes. Collective.
[[nodiscard]] double worst_peak_resident(Reducer& reducer);

}  // namespace rossby
