#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// The layers that stages may hold: cells of a DCRNN's encoder, then of its decoder; 0: the model has none.
[[nodiscard]] Index layers_for_stages(const Config& config);
/// The models that have layers, by name: "dcrnn, gru".
[[nodiscard]] std::string models_of_layers();

/// The stage of every layer of the model, by parallel.stage_layers: of a DCRNN's encoder, then of its
/// decoder. Throws UserError naming the key where the model has no layers, too few of them or others.
[[nodiscard]] std::vector<int> stages_of_layers(const Config& config, Index stages);

/// How many of these layers follow each other in each stage so that the slowest stage takes least; at least
/// one in each.
[[nodiscard]] std::vector<Index> balanced_stages(const std::vector<double>& layer_seconds, Index stages);

/// What a step takes each layer, forward and backward, as predicted on a job of a stage for every layer
/// (`load`: the configuration with further settings). Not collective.
[[nodiscard]] std::vector<double> predict_layers(
    const MeasuredMachine& machine, const Job& job,
    const std::function<Config(const std::vector<std::string>& settings)>& load, WholeGraph& whole);

/// parallel.stage_layers of balanced stages: of encoder and decoder alike where they are deep enough, and of
/// one after the other; of other models one way.
[[nodiscard]] std::vector<std::vector<Index>> stage_layouts(const Config& config,
                                                            const std::vector<double>& layer_seconds,
                                                            Index stages);

}  // namespace rossby
