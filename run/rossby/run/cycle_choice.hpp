#pragma once

#include <string>

#include "rossby/data/cycle.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/process_grid.hpp"

namespace rossby {

/// What data.cycle = "auto" comes to.
struct CycleChoice {
  CycleKind kind = CycleKind::none;
  std::string remark;  // lines that say why; the same on every rank
};

/// Tries every cycle that the time axis has: the one about which autoregressive forecasts have the smallest
/// error of the validation part; without such a part of the last fifth of the training part. Every rank reads
/// its rows of both parts once. Throws UserError where a value cannot be transformed. Collective.
[[nodiscard]] CycleChoice choose_cycle(const ProcessGrid& grid, const Config& config, const Domain& domain,
                                       int threads);

}  // namespace rossby
