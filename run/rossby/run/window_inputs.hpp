#pragma once

#include "rossby/train/config.hpp"

namespace rossby {

/// Throws UserError where the model does not read what the configuration gives it beside the series that it
/// forecasts: data.inputs, data.known_inputs, data.static, window.known_times.
void check_inputs(const Config& config);

}  // namespace rossby
