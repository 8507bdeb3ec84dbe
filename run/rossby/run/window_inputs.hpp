#pragma once

#include "rossby/train/config.hpp"

namespace rossby {

/// Throws UserError if the model does not read the inputs that the configuration gives it besides the
/// forecast series: data.inputs, data.known_inputs, data.static, window.known_times.
void check_inputs(const Config& config);

}  // namespace rossby
