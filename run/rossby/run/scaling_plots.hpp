#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rossby/run/scaling_report.hpp"

namespace rossby {

/// The files of an earlier report's studies in `folder`, by its scaling.json and the scripts that are still
/// those of such studies.
[[nodiscard]] std::vector<std::string> plots_of_earlier_report(const std::string& folder);

/// Writes into `folder`, a study each: data (NAME.dat, NAME.regions.dat) and a script (NAME.gp), and has
/// gnuplot draw NAME_speed_up, NAME_efficiency and NAME_regions as SVG and PNG; removes plots of what was
/// there before, and the other files of `earlier`. gnuplot is the program that the environment variable
/// GNUPLOT names, or that of PATH. `band` is the half width of the predictions' band as a share: measured
/// steps of which the prediction is off by that lie on its edge; none: each study's mean error. Returns why
/// nothing was drawn, in one line; empty where it was. Throws UserError where a file cannot be written, and
/// when a signal asked to leave meanwhile.
[[nodiscard]] std::string write_scaling_plots(const ScalingReport& report, const std::string& folder,
                                              const std::optional<double>& band,
                                              const std::vector<std::string>& earlier);

}  // namespace rossby
