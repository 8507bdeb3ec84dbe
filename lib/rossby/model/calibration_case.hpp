#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A small training that measures the ops of a machine, on synthetic data of `steps` steps on lat × lon
/// nodes.
struct CalibrationCase {
  Index lat = 1, lon = 1, steps = 0;
  std::string settings;    // TOML without data.file, split.* and parallel.*
  Index horizons = 1;      // of a forecast
  Index most_columns = 1;  // of joint forecasts, which take about as long as a step
  Index validated = 0;     // further steps, for the validation part
};

/// Size of a calibrated window model. Its activations grow with `inputs`, which is also the number of
/// outputs.
struct CalibrationWindows {
  Index lat, lon, batch, inputs;
};
/// Returns a training of model.name = `name` on windows. `model` holds further lines of TOML below [model];
/// `graph` is relation.graph.
[[nodiscard]] CalibrationCase calibration_case(std::string_view name, const CalibrationWindows& size,
                                               const std::string& model, std::string_view graph = "grid");

/// Returns sizes and state widths for measurements of small recurrent models.
[[nodiscard]] std::vector<std::pair<CalibrationWindows, Index>> recurrent_calibration_sizes();

}  // namespace rossby
