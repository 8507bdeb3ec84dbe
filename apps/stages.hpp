#pragma once

#include <vector>

#include "rossby/io/config.hpp"

namespace rossby {

/// The stage of every layer of the model, by parallel.stage_layers: of a DCRNN's encoder, then of its
/// decoder. Throws UserError naming the key where the model has no layers, too few of them or others.
[[nodiscard]] std::vector<int> stages_of_layers(const Config& config, Index stages);

}  // namespace rossby
