#pragma once

#include <string>

#include "rossby/base/index.hpp"

namespace rossby {

/// A file with a synthetic series: what `rossby data synth` writes.
struct SyntheticSeries {
  std::string kind = "pacific";  // pacific: a sea surface temperature; heat: diffusion with known relations
  Index lat = 30;                // rows of the grid
  Index lon = 84;
  Index steps = 240;
  Index seed = 1;
  double noise = -1;          // standard deviation; −1: the kind's own
  double teleconnection = 0;  // pacific: weight of two planted teleconnections; 0: there are none
  std::string output;         // file to write
};

/// Cells of the grid that were written.
struct SyntheticGrid {
  Index lat = 0, lon = 0;
  Index with_values = 0;
};

/// Writes the series, the same for the same seed, as CF NetCDF: a grid with its land, or a rod or plate of
/// sensors with the edges that made it. Throws UserError if the file cannot be written.
SyntheticGrid write_synthetic(const SyntheticSeries& series);

}  // namespace rossby
