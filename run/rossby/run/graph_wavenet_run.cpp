#include "rossby/run/graph_wavenet_run.hpp"

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

GraphWavenetOptions options_of(const Config& config, const WindowShape& shape) {
  GraphWavenetOptions options;
  options.inputs = shape.inputs;
  options.outputs = shape.outputs;
  options.blocks = config.integer("model.blocks");
  options.block_layers = config.integer("model.block_layers");
  options.width = config.integer("model.channels");
  options.skip = config.integer("model.skip");
  options.end = config.integer("model.end");
  options.powers = config.integer("model.diffusion_steps");
  options.adaptive = config.flag("model.adaptive");
  options.adaptive_width = config.integer("model.adaptive_width");
  options.dropout = config.real("model.dropout");
  options.seed = static_cast<std::uint64_t>(config.integer("train.seed"));
  options.recompute = config.text("train.recompute") == "cell" ? Recompute::cell : Recompute::none;
  return options;
}

}  // namespace

void check_graph_wavenet(const Config& config, const WindowShape& shape) {
  const GraphWavenetOptions options = options_of(config, shape);
  if (shape.inputs > options.receptive_steps())
    user_error(
        "window.inputs = {}: model.blocks = {} of model.block_layers = {} see {} steps; raise one of the "
        "two, "
        "or set window.inputs to {} or less",
        shape.inputs, options.blocks, options.block_layers, options.receptive_steps(),
        options.receptive_steps());
  if (options.layers() < 2)
    user_error(
        "model.blocks = 1 of model.block_layers = 1: the last layer of a graph_wavenet has no graph "
        "convolution; it needs two or more");
  if (options.powers < 1)
    user_error("model.diffusion_steps = 0: a graph_wavenet takes one power of its supports or more");
  if (!options.adaptive && config.text("relation.graph") == "none")
    user_error(
        "model.name = \"graph_wavenet\" needs a graph or model.adaptive = true: set relation.graph, or leave "
        "model.adaptive as it is");
  const auto refuse = [](bool asked, const char* setting, const char* instead) {
    if (asked) user_error("{} is not for model.name = \"graph_wavenet\": {}", setting, instead);
  };
  refuse(config.text("train.recompute") == "step", "train.recompute = \"step\"",
         "it has no recurrent steps; \"cell\" computes its layers again");
  refuse(config.text("model.diffusion") == "legacy", "model.diffusion = \"legacy\"",
         "it takes powers of its supports; leave the key out");
  refuse(config.real("model.sampling_decay") > 0, "model.sampling_decay",
         "it forecasts all steps at once; set 0");
  const Config defaults;
  refuse(config.integer("model.layers") != defaults.integer("model.layers"), "model.layers",
         "set model.blocks and model.block_layers, and leave it out");
  refuse(config.integer("model.units") != defaults.integer("model.units"), "model.units",
         "set model.channels, and leave it out");
}

template <class T>
std::unique_ptr<WindowModel<T>> make_graph_wavenet(const Config& config, const WindowShape& shape,
                                                   const SeriesReader<T>& reader, Diffusion<T> supports,
                                                   const RowPartition& partition, int part,
                                                   Exchange* all_rows, Reducer& everyone,
                                                   const Pipeline& pipeline,
                                                   const std::vector<int>& stage_of) {
  GraphWavenetOptions options = options_of(config, shape);
  options.channels = reader.channels();
  options.features = reader.features();
  options.pipeline = pipeline;
  options.stage_of = stage_of;
  AllNodes nodes;
  nodes.first = partition.begin(part);
  nodes.owned = partition.size(part);
  nodes.exchange = all_rows;
  nodes.global.resize(static_cast<std::size_t>(partition.rows()));
  for (Index p = 0; p < partition.rows(); ++p)
    nodes.global[static_cast<std::size_t>(p)] = partition.global(Position{p}).value;
  return std::make_unique<GraphWavenet<T>>(options, std::move(supports), std::move(nodes), everyone);
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template std::unique_ptr<WindowModel<T>> make_graph_wavenet(                                           \
      const Config&, const WindowShape&, const SeriesReader<T>&, Diffusion<T>, const RowPartition&, int, \
      Exchange*, Reducer&, const Pipeline&, const std::vector<int>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
