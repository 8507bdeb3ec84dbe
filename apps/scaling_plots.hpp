#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/scaling_report.hpp"

namespace rossby {

/// Writes into `folder`, a study each: data (NAME.dat, NAME.regions.dat) and a script (NAME.gp), and has
/// gnuplot draw NAME_speed_up, NAME_efficiency and NAME_regions as SVG and PNG. gnuplot is the program that
/// the environment variable GNUPLOT names, or that of PATH. `band` is the half width of the predictions' band
/// as a share of them; none: each study's mean error. Returns why nothing was drawn, in one line; empty where
/// it was. Throws UserError where a file cannot be written.
[[nodiscard]] std::string write_scaling_plots(const ScalingReport& report, const std::string& folder,
                                              const std::optional<double>& band);

}  // namespace rossby
