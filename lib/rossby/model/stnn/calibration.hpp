#pragma once

#include <vector>

#include "rossby/model/calibration_case.hpp"

namespace rossby {

/// Returns STNN trainings that measure a machine: sparse and dense relations, given and learned, slabs and
/// pairs.
[[nodiscard]] std::vector<CalibrationCase> stnn_calibration();
[[nodiscard]] std::vector<CalibrationCase> quick_stnn_calibration();

}  // namespace rossby
