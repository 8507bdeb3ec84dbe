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

/// Returns the settings of baselines as the configuration has them. `solver` must outlive the baselines.
[[nodiscard]] BaselineSettings baseline_settings(const Config& config, const Domain& domain, Index horizons,
                                                 int threads, const SpdSolver& solver);

/// Continues axis, split and series by missing steps, because baselines know the times of targets from the
/// axis. Throws UserError if the step of the axis is unknown.
void continue_by(Index steps, TimeAxis& axis, Split& split, Series& series);

/// Returns the classical forecasters of a run's data, as its configuration sets them. With `horizons` 0,
/// leaves out those with a regression for each horizon. `axis` (of the data, or longer) and `solver` must
/// outlive the forecasters.
[[nodiscard]] std::vector<std::unique_ptr<Baseline>> run_baselines(const Config& config, const Domain& domain,
                                                                   Index horizons, int threads,
                                                                   const SpdSolver& solver,
                                                                   const TimeAxis& axis);

}  // namespace rossby
