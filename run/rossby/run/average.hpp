#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Options of `rossby average`. The same on every rank.
struct AverageOptions {
  std::vector<std::string> members;  // run directories, names of baselines, files of forecasts
  std::string output;                // directory to make
  std::string weighting = "equal";   // or "validation", "stacking"
  std::string device;                // parallel.device; empty: as trained, or cpu if there is no GPU
  std::vector<std::string> sets;     // key=value, as `evaluate` takes them
  bool prints = false;               // rank 0 prints what `rossby average` does
};

/// Makes an average of forecasters: finds the weight of each member at each lead and writes the weights to
/// <output>/average.json. Returns the path of that file on every rank. The test part has no influence. Throws
/// UserError on every rank of `comm`, as `train` does; the directory is then as before. Collective over
/// `comm`.
std::string average(const Communicator& comm, const AverageOptions& options);

}  // namespace rossby
