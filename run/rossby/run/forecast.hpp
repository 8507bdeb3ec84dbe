#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// What is forecast from a trained run. The same on every rank.
struct ForecastOptions {
  Index steps = 1;
  std::string origin;             // date or value of the time axis; empty: the last step of the data
  std::string inputs;             // file with data.known_inputs of the steps; empty: those of the data
  std::string output;             // file; empty: forecast.nc in the run directory
  std::string device;             // parallel.device; empty: as trained, without a GPU the cores
  std::vector<std::string> sets;  // key=value: harmless keys, split.test, data.file and relation.file only
  std::vector<double> intervals = {};  // central ones, in percent, whose ends are written as quantiles
  bool members = false;                // of an average: those of its members, too
  Index dressed = 0;                   // of an average: so many realizations of dressed members; 0: none
  bool accept_changed_data = false;    // of the training part, which is reported
  bool prints = false;                 // rank 0 prints what `rossby forecast` does
};

/// Forecasts from the state of a run directory, or from an average (average.hpp), and writes a CF NetCDF
/// file, whose path is returned on every rank. Throws UserError on every rank of `comm`, as `train` does;
/// also if the model diverges within the steps. Collective over `comm`.
std::string forecast(const Communicator& comm, const std::string& run, const ForecastOptions& options);

}  // namespace rossby
