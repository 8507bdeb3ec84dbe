#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// How a trained run is scored. The same on every rank.
struct EvaluateOptions {
  std::string output;             // file; empty: evaluation.json in the run directory
  std::string device;             // parallel.device; empty: as trained, without a GPU the cores
  std::vector<std::string> sets;  // key=value: harmless keys, split.test, data.file and relation.file only
  std::vector<std::string> baselines = {};  // files of forecasts (ForecastFile) that are scored, too
  bool accept_changed_data = false;         // of the training part, which is reported
  std::string against = {};                 // baseline that the model is compared with, too
  std::string weights = {}, by = {};        // make_slices
  std::vector<std::string> regions = {};    // likewise
  std::string hindcasts = {};               // NetCDF file for all forecasts (Hindcasts); empty: none
  std::string scores = {};                  // NetCDF file for maps of scores (write_score_maps); empty: none
  int deflate = 0;                          // level of compression of both, 0 to 9
  bool prints = false;                      // rank 0 prints what `rossby evaluate` does
};

/// What evaluation found; the same on every rank.
struct Evaluation {
  std::string file;      // that rank 0 wrote
  HorizonScores scores;  // of the model, then of the baselines: all variables together
};

/// Scores the state of a run directory, or an average of several (average.hpp), on its test part, beside the
/// classical baselines, and writes that. A file of forecasts is called file_<its name> in what is written.
/// Throws UserError on every rank of `comm`, as `train` does. Collective over `comm`.
Evaluation evaluate(const Communicator& comm, const std::string& run, const EvaluateOptions& options = {});

/// Throws UserError if settings that evaluate will use fit neither each other nor the data. Returns a line of
/// warning, or nothing, of what evaluate will not find.
[[nodiscard]] std::string check_evaluation(const Config& config, const Domain& domain);

}  // namespace rossby
