#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// What `rossby average` is asked for. The same on every rank.
struct AverageOptions {
  std::vector<std::string> members;  // run directories, names of baselines, files of forecasts
  std::string output;                // directory that is made
  std::string weighting = "equal";   // or "validation", "stacking"
  std::string device;                // parallel.device; empty: as trained, without a GPU the cores
  std::vector<std::string> sets;     // key=value, as `evaluate` takes them
  bool prints = false;               // rank 0 prints what `rossby average` does
};

/// Makes an average of forecasters: finds the weight of each member at each lead and writes them to
/// <output>/average.json, whose path is returned on every rank. Nothing of the test part has a say in it.
/// Throws UserError on every rank of `comm`, as `train` does; the directory is then as it was. Collective
/// over `comm`.
std::string average(const Communicator& comm, const AverageOptions& options);

}  // namespace rossby
