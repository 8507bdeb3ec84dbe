#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Options of `rossby profile`.
struct ProfileOptions {
  std::string config;              // configuration (TOML), or a series
  std::string directory;           // directory of profile.json; a profile of the same question goes on there
  std::string budget = "3%";       // share of the complete trainings of all candidates, or time ("10m")
  std::string candidates = "all";  // all, names of models and candidates, or a TOML file
  std::string machine;             // `rossby calibrate` file to plan costs from; empty: costs are measured
  bool measures = true;            // measure calls that the machine's file lacks, and add them to it
  std::string costs;               // directory of a profile whose measured costs are used; empty: none
  Index folds = 0;                 // blocked folds of the training part; 0: as configured or needed
  Index seed = 1;                  // of trainings and draws
  std::vector<std::string> sets;   // key=value, for all candidates
  bool prints = false;             // rank 0 prints what `rossby profile` does
};

/// How a profile ended; the same on every rank.
struct Profiled {
  std::string choice;           // the candidate in best.toml
  std::string better_baseline;  // predicted to be better than `choice`; empty: none
  std::string paused;           // why the profile is not complete; empty: complete
};

/// Finds the candidate with the smallest validation error by successive halving. All train for the same time,
/// the better half twice as long, and so on up to the budget, each on the schedule of its complete training.
/// With folds, only the last ones train on all of them.
/// Writes profile.json, profile.md, curves.svg and best.toml to options.directory; trainings of candidates
/// are runs below candidates/. A candidate that fails ends alone. A killed profile goes on with the same
/// errors and the same choice. Values of the test part have no influence.
///
/// Throws UserError on every rank: bad settings or data, no candidate that can be trained, or a budget too
/// small for a few steps of each. Collective over `comm`.
Profiled profile(const Communicator& comm, const ProfileOptions& options);

/// Run directories of the candidates with the smallest expected regret, best first, trained to their end.
/// `paused` is true if a signal came before that; train again to go on.
struct TrainedBest {
  std::vector<std::string> runs;
  bool paused = false;
};
/// Trains the `count` best candidates. Throws UserError if there are fewer. Collective over `comm`.
[[nodiscard]] TrainedBest train_best(const Communicator& comm, const std::string& directory, Index count,
                                     bool prints);

/// Returns the path of the chosen configuration. Throws UserError if the profile has chosen none.
[[nodiscard]] std::string best_config_of(const std::string& directory);

}  // namespace rossby
