#include "rossby/run/stages.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Returns near-equal parts, the last ones larger. The last stage also has the end of the model; the first
/// has its input, which is seldom as wide as the layers.
std::vector<Index> equal_parts(Index layers, Index stages) {
  std::vector<Index> parts;
  for (Index s = 0; s < stages; ++s) parts.push_back(layers * (s + 1) / stages - layers * s / stages);
  return parts;
}

PipelineLayers layers_of(const Config& config) {
  const WindowArchitecture* windows = config.windows();
  return windows ? windows->pipeline_layers() : PipelineLayers{};
}

}  // namespace

Index layers_for_stages(const Config& config) {
  return layers_of(config).count;
}

std::string models_of_layers() {
  std::string names;
  for (const ModelDescriptor& model : models())
    if (model.of_layers) names += fmt::format("{}{}", names.empty() ? "" : ", ", model.name);
  return names;
}

std::vector<int> stages_of_layers(const Config& config, Index stages) {
  const auto [all, recurrent] = layers_of(config);
  if (all == 0 && config.windows() && config.windows()->embeddings().any())
    user_error(
        "parallel.stages = {} does not work with learned vectors (model.*_embedding). Set "
        "parallel.stages = 1",
        stages);
  if (all == 0)
    user_error(
        "parallel.stages = {} works only with models that have layers ({}). Set parallel.stages = 1 "
        "for model.name = \"{}\"",
        stages, models_of_layers(), config.model.name);
  if (config.train.recompute == "step")
    user_error(
        "train.recompute = \"step\" recomputes all layers together, but parallel.stages = {} separates "
        "them. Set train.recompute = \"cell\"",
        stages);
  const Index layers = recurrent ? all / 2 : all;
  const char* kind = recurrent ? "cells of encoder and decoder" : "layers";
  if (stages > all)
    user_error(
        "parallel.stages = {} is too many: the model has {} {}, and every stage needs at least one. "
        "Lower parallel.stages",
        stages, all, kind);
  std::vector<Index> parts = config.parallel.stage_layers;
  if (parts.empty()) parts = equal_parts(recurrent && stages <= layers ? layers : all, stages);
  const Index sum = std::accumulate(parts.begin(), parts.end(), Index{0});
  if (std::ssize(parts) != stages || (sum != all && (!recurrent || sum != layers)))
    user_error(
        "parallel.stage_layers = [{}] does not fit. Give {} numbers, one for each stage, with the sum {}{}",
        fmt::join(parts, ", "), stages, recurrent ? fmt::format("{} or ", layers) : "", all);
  std::vector<int> stage_of;
  for (Index s = 0; s < stages; ++s)
    stage_of.insert(stage_of.end(), static_cast<std::size_t>(parts[static_cast<std::size_t>(s)]),
                    static_cast<int>(s));
  if (recurrent && sum == layers) {  // the decoder as the encoder
    const std::vector<int> encoder = stage_of;
    stage_of.insert(stage_of.end(), encoder.begin(), encoder.end());
  }
  return stage_of;
}

// Dynamic programming: least[s][l] is the time of the slowest of s + 1 stages that hold the first l layers.
std::vector<Index> balanced_stages(const std::vector<double>& layer_seconds, Index stages) {
  const Index layers = std::ssize(layer_seconds);
  require(stages >= 1 && stages <= layers, "as many layers as stages, or more");
  const auto at = [layers](Index s, Index l) { return static_cast<std::size_t>(s * (layers + 1) + l); };
  std::vector<double> sums(static_cast<std::size_t>(layers) + 1, 0.0);
  std::partial_sum(layer_seconds.begin(), layer_seconds.end(), sums.begin() + 1);
  const auto of = [&](Index first, Index end) {
    return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
  };
  std::vector<double> least(static_cast<std::size_t>(stages * (layers + 1)),
                            std::numeric_limits<double>::infinity());
  std::vector<Index> cut(least.size(), 0);
  for (Index l = 1; l <= layers; ++l) least[at(0, l)] = of(0, l);
  for (Index s = 1; s < stages; ++s)
    for (Index l = s + 1; l <= layers; ++l)
      for (Index before = s; before < l; ++before) {
        const double slowest = std::max(least[at(s - 1, before)], of(before, l));
        if (slowest >= least[at(s, l)]) continue;
        least[at(s, l)] = slowest;
        cut[at(s, l)] = before;
      }
  std::vector<Index> parts(static_cast<std::size_t>(stages));
  for (Index s = stages - 1, end = layers; s >= 0; --s) {
    const Index first = s > 0 ? cut[at(s, end)] : 0;
    parts[static_cast<std::size_t>(s)] = end - first;
    end = first;
  }
  return parts;
}

std::vector<double> predict_layers(
    const MeasuredMachine& machine, const Job& job,
    const std::function<Config(const std::vector<std::string>& settings)>& load, WholeGraph& whole) {
  const auto layers = static_cast<int>(layers_for_stages(load({})));
  const std::string each =
      fmt::format("[{}]", fmt::join(std::vector<int>(static_cast<std::size_t>(layers), 1), ", "));
  const Config config =
      load({"parallel.time_groups=1", fmt::format("parallel.stages={}", layers),
            "parallel.stage_layers=" + each, "window.micro_batches=1", "train.recompute=none"});
  std::vector<double> seconds;
  for (int layer = 0; layer < layers; ++layer) {
    const Prediction p = predict_rank(config, machine, {layers, job.on_host, job.threads}, layer, whole);
    seconds.push_back(p.forward + p.backward);
  }
  return seconds;
}

std::vector<std::vector<Index>> stage_layouts(const Config& config, const std::vector<double>& layer_seconds,
                                              Index stages) {
  std::vector<std::vector<Index>> layouts;
  if (stages > std::ssize(layer_seconds)) return layouts;
  if (layers_of(config).mirrored && stages <= std::ssize(layer_seconds) / 2) {
    const auto half = layer_seconds.begin() + std::ssize(layer_seconds) / 2;
    std::vector<double> both(layer_seconds.begin(), half);
    std::transform(both.begin(), both.end(), half, both.begin(), std::plus<>());
    layouts.push_back(balanced_stages(both, stages));
  }
  layouts.push_back(balanced_stages(layer_seconds, stages));
  return layouts;
}

}  // namespace rossby
