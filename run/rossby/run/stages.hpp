#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Returns the number of layers for stages: a DCRNN's encoder cells, then its decoder cells; 0: none.
[[nodiscard]] Index layers_for_stages(const Config& config);
/// Returns the names of the models with layers: "dcrnn, gru".
[[nodiscard]] std::string models_of_layers();

/// Returns the stage of every layer, by parallel.stage_layers; a DCRNN's encoder comes first, then its
/// decoder. Throws UserError naming the key if the model has no layers, or too few, or if the key does not
/// fit them.
[[nodiscard]] std::vector<int> stages_of_layers(const Config& config, Index stages);

/// Returns how many consecutive layers each stage holds, at least one, so that the slowest stage takes least.
[[nodiscard]] std::vector<Index> balanced_stages(const std::vector<double>& layer_seconds, Index stages);

/// Returns the predicted seconds of a step for each layer, forward and backward, in a job with one layer a
/// stage. `load`: the configuration with further settings. Not collective.
[[nodiscard]] std::vector<double> predict_layers(
    const MeasuredMachine& machine, const Job& job,
    const std::function<Config(const std::vector<std::string>& settings)>& load, WholeGraph& whole);

/// Returns parallel.stage_layers of balanced stages. A model of encoder and decoder has two layouts: both
/// parts alike, if they are deep enough, and one part after the other. Other models have one.
[[nodiscard]] std::vector<std::vector<Index>> stage_layouts(const Config& config,
                                                            const std::vector<double>& layer_seconds,
                                                            Index stages);

}  // namespace rossby
