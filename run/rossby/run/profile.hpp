#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// What `rossby profile` is asked.
struct ProfileOptions {
  std::string config;              // configuration (TOML), or a series
  std::string directory;           // that profile.json goes to; a profile of the same question goes on there
  std::string budget = "3%";       // share of the complete trainings of all candidates, or time ("10m")
  std::string candidates = "all";  // all, names of models and candidates, or a TOML file
  std::string machine;             // measurements of `rossby calibrate`: costs are planned; empty: measured
  bool measures = true;            // calls of the candidates that the machine's file lacks, into that file
  std::string costs;               // directory of a profile whose measured costs are taken; empty: none
  Index folds = 0;                 // blocked folds of the training part; 0: as configured, or if need be
  Index seed = 1;                  // of trainings and draws
  std::vector<std::string> sets;   // key=value, for all candidates
  bool prints = false;             // rank 0 prints what `rossby profile` does
};

/// How a profile ended; the same on every rank.
struct Profiled {
  std::string choice;           // candidate that best.toml has
  std::string better_baseline;  // predicted to be better than it; empty: none is
  std::string paused;           // why it is not over; empty: it is
};

/// Finds the candidate with the smallest validation error by successive halving: all train a little, the
/// better half of them twice as far, and so on up to the budget, each on the schedule of its complete
/// training. Writes profile.json, profile.md, curves.svg and best.toml to options.directory; trainings of
/// candidates are runs below candidates/. A candidate that fails ends alone. A profile that was killed goes
/// on, with the same errors and the same choice. Values of the test part have no say in it.
///
/// Throws UserError on every rank: bad settings or data, no candidate that can be trained, a budget that does
/// not reach for a few steps of each. Collective over `comm`.
Profiled profile(const Communicator& comm, const ProfileOptions& options);

/// Run directories of the `count` candidates of a profile with the smallest expected regret, best first,
/// which are trained to their end first. `pause` is true if a signal came before that; train again to go on.
struct TrainedBest {
  std::vector<std::string> runs;
  bool paused = false;
};
/// Throws UserError if there are fewer candidates. Collective over `comm`.
[[nodiscard]] TrainedBest train_best(const Communicator& comm, const std::string& directory, Index count,
                                     bool prints);

/// The configuration that a profile has chosen. Throws UserError if it has chosen none.
[[nodiscard]] std::string best_config_of(const std::string& directory);

}  // namespace rossby
