#pragma once

#include <string>

#include "rossby/data/cycle.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/process_grid.hpp"

namespace rossby {

/// The cycle that data.cycle = "auto" chooses.
struct CycleChoice {
  CycleKind kind = CycleKind::none;
  std::string remark;  // lines with the reason; the same on every rank
};

/// Tries every cycle that the time axis has. Chooses by the error of autoregressive forecasts about it in the
/// validation part or, without one, in the last fifth of the training part. Every rank reads its rows of both
/// parts once. Throws UserError if a value cannot be transformed. Collective.
[[nodiscard]] CycleChoice choose_cycle(const ProcessGrid& grid, const Config& config, const Domain& domain,
                                       int threads);

}  // namespace rossby
