#include "apps/stages.hpp"

#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

/// Near-equal parts, the last ones larger: the end of a model is with the last stage, but its input, which is
/// seldom as wide as its layers, with the first.
std::vector<Index> equal_parts(Index layers, Index stages) {
  std::vector<Index> parts;
  for (Index s = 0; s < stages; ++s) parts.push_back(layers * (s + 1) / stages - layers * s / stages);
  return parts;
}

}  // namespace

std::vector<int> stages_of_layers(const Config& config, Index stages) {
  const std::string& model = config.text("model.name");
  if (model == "tgcn")
    user_error(
        "parallel.stages = {} is for models of layers (dcrnn, gru, graph_wavenet); a tgcn has one layer",
        stages);
  if (config.text("train.recompute") == "step")
    user_error(
        "train.recompute = \"step\" computes all layers together, which parallel.stages = {} keep apart; "
        "set \"cell\"",
        stages);
  const bool recurrent = model != "graph_wavenet";
  const Index layers = recurrent ? config.integer("model.layers")
                                 : config.integer("model.blocks") * config.integer("model.block_layers");
  const Index all = recurrent ? 2 * layers : layers;
  const char* kind = recurrent ? "cells of encoder and decoder" : "layers";
  if (stages > all)
    user_error("parallel.stages = {}: the model has {} {}, at least one for every stage", stages, all, kind);
  std::vector<Index> parts = config.integers("parallel.stage_layers");
  if (parts.empty()) parts = equal_parts(recurrent && stages <= layers ? layers : all, stages);
  const Index sum = std::accumulate(parts.begin(), parts.end(), Index{0});
  if (std::ssize(parts) != stages || (sum != all && (!recurrent || sum != layers)))
    user_error(
        "parallel.stage_layers = [{}]: give {} numbers, one for each of parallel.stages, that sum up to {}{}",
        fmt::join(parts, ", "), stages, recurrent ? fmt::format("{} or ", layers) : "", all);
  std::vector<int> stage_of;
  for (Index s = 0; s < stages; ++s)
    stage_of.insert(stage_of.end(), static_cast<std::size_t>(parts[static_cast<std::size_t>(s)]),
                    static_cast<int>(s));
  if (recurrent && sum == layers) {  // encoder and decoder alike
    const std::vector<int> encoder = stage_of;
    stage_of.insert(stage_of.end(), encoder.begin(), encoder.end());
  }
  return stage_of;
}

}  // namespace rossby
