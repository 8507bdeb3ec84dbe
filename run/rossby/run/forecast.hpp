#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Options of `rossby forecast`. The same on every rank.
struct ForecastOptions {
  Index steps = 1;
  std::string origin;             // date or value of the time axis; empty: the last step of the data
  std::string inputs;             // file with data.known_inputs of the steps; empty: as in the data
  std::string output;             // file; empty: forecast.nc in the run directory
  std::string device;             // parallel.device; empty: as trained, or cpu if there is no GPU
  std::vector<std::string> sets;  // key=value: harmless keys, split.test, data.file and relation.file only
  std::vector<double> intervals = {};  // central ones, in percent; their ends are written as quantiles
  bool members = false;                // of an average: write its members' forecasts, too
  Index dressed = 0;                   // of an average: number of realizations of dressed members
  bool accept_changed_data = false;    // accept and report a changed training part
  bool prints = false;                 // rank 0 prints what `rossby forecast` does
};

/// Forecasts from the state of a run directory, or from an average (average.hpp), and writes a CF NetCDF
/// file. Returns its path on every rank. Throws UserError on every rank of `comm`, as `train` does; also if
/// the model diverges within the steps. Collective over `comm`.
std::string forecast(const Communicator& comm, const std::string& run, const ForecastOptions& options);

}  // namespace rossby
