#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "rossby/exchange/spd_solver.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// All names that classical_baselines may give.
constexpr std::array<std::string_view, 10> baseline_names{
    "persistence", "climatology", "annual_cycle", "time_of_week", "ar1",
    "lim",         "ridge_var",   "cycle",        "direct_ar",    "direct_ridge"};

/// The classical forecasters of a run's data, as its configuration has them; with `horizons` 0 without those
/// that have a regression for each horizon. `axis` (that of the data, or a longer one) and `solver` outlive
/// them.
[[nodiscard]] std::vector<std::unique_ptr<Baseline>> run_baselines(const Config& config, const Domain& domain,
                                                                   Index horizons, int threads,
                                                                   const SpdSolver& solver,
                                                                   const TimeAxis& axis);

}  // namespace rossby
