#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// Options of `rossby evaluate`. The same on every rank.
struct EvaluateOptions {
  std::string output;             // file; empty: evaluation.json in the run directory
  std::string device;             // parallel.device; empty: as trained, or cpu if there is no GPU
  std::vector<std::string> sets;  // key=value: harmless keys, split.test, data.file and relation.file only
  std::vector<std::string> baselines = {};  // files of forecasts (ForecastFile) to score, too
  bool accept_changed_data = false;         // accept and report a changed training part
  std::string against = {};                 // a further baseline to compare the model with
  std::string weights = {}, by = {};        // make_slices
  std::vector<std::string> regions = {};    // likewise
  std::string hindcasts = {};               // NetCDF file for all forecasts (Hindcasts); empty: none
  std::string scores = {};                  // NetCDF file for maps of scores (write_score_maps); empty: none
  int deflate = 0;                          // level of compression of both, 0 to 9
  bool prints = false;                      // rank 0 prints what `rossby evaluate` does
};

/// Results of an evaluation; the same on every rank.
struct Evaluation {
  std::string file;      // written by rank 0
  HorizonScores scores;  // of the model, then of the baselines: all variables together
};

/// Scores the state of a run directory, or an average of several (average.hpp), and the classical baselines
/// on the test part, and writes the scores. In them a file of forecasts is called file_<its name>. Throws
/// UserError on every rank of `comm`, as `train` does. Collective over `comm`.
Evaluation evaluate(const Communicator& comm, const std::string& run, const EvaluateOptions& options = {});

/// Throws UserError if settings that evaluate will use contradict each other or the data. Returns a line of
/// warning on what evaluate will not find, or nothing.
[[nodiscard]] std::string check_evaluation(const Config& config, const Domain& domain);

}  // namespace rossby
