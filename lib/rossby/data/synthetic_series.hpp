#pragma once

#include <string>

#include "rossby/base/index.hpp"

namespace rossby {

/// A file with a synthetic series, for `rossby data synth`.
struct SyntheticSeries {
  std::string kind = "pacific";  // pacific: sea surface temperature; heat: diffusion with known relations
  Index lat = 30;                // rows of the grid
  Index lon = 84;
  Index steps = 240;
  Index seed = 1;
  double noise = -1;          // standard deviation; −1: default of the kind
  double teleconnection = 0;  // pacific: weight of two planted teleconnections; 0: none
  std::string output;         // file to write
};

/// Cells of the grid in the file.
struct SyntheticGrid {
  Index lat = 0, lon = 0;
  Index with_values = 0;
};

/// Writes the series as CF NetCDF, the same for the same seed: a grid with its land, or a rod or plate of
/// sensors with the edges that generate it. Throws UserError if the file cannot be written.
SyntheticGrid write_synthetic(const SyntheticSeries& series);

}  // namespace rossby
