#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A small training whose ops a machine is measured by, on synthetic data of `steps` steps on lat × lon
/// nodes.
struct CalibrationCase {
  Index lat = 1, lon = 1, steps = 0;
  std::string settings;    // TOML without data.file, split.* and parallel.*
  Index horizons = 1;      // of a forecast
  Index most_columns = 1;  // of forecasts made together, which take about as long as a step
  Index validated = 0;     // further steps, the validation part
};

/// Size of a calibrated forecaster of windows: its activations grow with `inputs`, which are its outputs,
/// too.
struct CalibrationWindows {
  Index lat, lon, batch, inputs;
};
/// A training of model.name = `name` on windows; `model` are further lines of TOML below [model], and `graph`
/// is relation.graph.
[[nodiscard]] CalibrationCase calibration_case(std::string_view name, const CalibrationWindows& size,
                                               const std::string& model, std::string_view graph = "grid");

/// Sizes and state widths by which small recurrent models are measured.
[[nodiscard]] std::vector<std::pair<CalibrationWindows, Index>> recurrent_calibration_sizes();

}  // namespace rossby
