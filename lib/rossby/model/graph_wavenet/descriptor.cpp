#include "rossby/base/user_error.hpp"
#include "rossby/model/architecture.hpp"
#include "rossby/model/graph_wavenet/graph_wavenet.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/shared_keys.hpp"

namespace rossby {
namespace {

struct Settings {
  Index diffusion_steps = 2;
  std::string supports;
  Index blocks = 4;
  Index block_layers = 2;
  Index channels = 32;
  Index skip = 256;
  Index end = 512;
  double dropout = 0.3;
  bool adaptive = true;
  Index adaptive_width = 10;
};

constexpr Key<Settings> table[] = {
    bind<&Settings::diffusion_steps>(shared::diffusion_steps),
    bind<&Settings::supports>(shared::supports),
    key<&Settings::blocks>("model.blocks", "4", "", "number of blocks of layers").range(1, 64),
    key<&Settings::block_layers>("model.block_layers", "2", "",
                                 "number of layers in a block, with dilations 1, 2, 4, …")
        .range(1, 16),
    key<&Settings::channels>("model.channels", "32", "", "channels of the layers").range(1, 65536),
    key<&Settings::skip>("model.skip", "256", "", "channels of the skip connections").range(1, 65536),
    key<&Settings::end>("model.end", "512", "", "channels of the last hidden layer").range(1, 65536),
    key<&Settings::dropout>("model.dropout", "0.3", "", "dropout after graph convolutions").range(0, 0.999),
    key<&Settings::adaptive>("model.adaptive", "true", "",
                             "learn an adjacency between all nodes (self-adaptive adjacency). The adjacency "
                             "takes memory for owned nodes x all nodes"),
    key<&Settings::adaptive_width>("model.adaptive_width", "10", "",
                                   "width of the two tables of the adaptive adjacency")
        .range(1, 4096),
};

class WaveNet final : public WindowArchitectureOf<WaveNet> {
 public:
  explicit WaveNet(const KeyValues& values)
      : settings_(read_settings<Settings>(values, table)),
        embeddings_(shared::embedding_choice(values, 0)),
        legacy_(values.text(shared::diffusion.spec.name) == "legacy"),
        samples_(values.real(shared::sampling_decay.spec.name) > 0),
        layers_set_(!values.is_default(shared::layers.spec.name)),
        units_set_(!values.is_default(shared::units.spec.name)) {}

  [[nodiscard]] std::string_view name() const override { return "graph_wavenet"; }
  [[nodiscard]] double entry_cost(int relations) const override {
    const auto hops = static_cast<double>(settings_.diffusion_steps);
    const double matrices = (both_ways() ? 2.0 : 1.0) * relations * hops + 1;
    return hops / (static_cast<double>(settings_.channels) * (matrices + 4));
  }
  [[nodiscard]] Supports supports() const override {
    using enum Supports::Kind;
    return {.kind = both_ways() ? dual_random_walk : random_walk, .optional = true};
  }
  [[nodiscard]] ConvolutionShape convolution() const override {
    return {settings_.channels, static_cast<int>(settings_.diffusion_steps), DiffusionVariant::powers};
  }
  [[nodiscard]] PipelineLayers pipeline_layers() const override {
    return embeddings_.any() ? PipelineLayers{}
                             : PipelineLayers{settings_.blocks * settings_.block_layers, false};
  }
  [[nodiscard]] EmbeddingChoice embeddings() const override { return embeddings_; }
  [[nodiscard]] std::vector<std::string_view> recompute_modes() const override { return {"none", "cell"}; }
  [[nodiscard]] bool normalises_batches() const override { return true; }
  [[nodiscard]] bool relates_all_nodes() const override { return settings_.adaptive; }
  void check(const WindowChecks& checks) const override;

  template <class T>
  [[nodiscard]] std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const {
    GraphWavenetOptions options = options_of(parts.shape);
    options.channels = parts.channels;
    options.features = parts.features;
    options.seed = parts.seed;
    options.recompute = parts.recompute == Recompute::cell ? Recompute::cell : Recompute::none;
    options.pipeline = parts.pipeline;
    options.stage_of = std::move(parts.stage_of);
    AllNodes nodes;
    const RowPartition& partition = *parts.partition;
    nodes.first = partition.begin(parts.part);
    nodes.owned = partition.size(parts.part);
    nodes.exchange = parts.all_rows;
    nodes.global.resize(static_cast<std::size_t>(partition.rows()));
    for (Index p = 0; p < partition.rows(); ++p)
      nodes.global[static_cast<std::size_t>(p)] = partition.global(Position{p}).value;
    return std::make_unique<GraphWavenet<T>>(options, std::move(parts.diffusion), std::move(nodes),
                                             *parts.plane, parts.embeddings, parts.global_rows());
  }

 private:
  [[nodiscard]] bool both_ways() const { return settings_.supports == "dual_random_walk"; }
  [[nodiscard]] GraphWavenetOptions options_of(const WindowShape& shape) const {
    GraphWavenetOptions options;
    options.inputs = shape.inputs;
    options.outputs = shape.outputs;
    options.blocks = settings_.blocks;
    options.block_layers = settings_.block_layers;
    options.width = settings_.channels;
    options.skip = settings_.skip;
    options.end = settings_.end;
    options.powers = settings_.diffusion_steps;
    options.adaptive = settings_.adaptive;
    options.adaptive_width = settings_.adaptive_width;
    options.dropout = settings_.dropout;
    return options;
  }

  Settings settings_;
  EmbeddingChoice embeddings_;
  // Keys of other models, which are refused.
  bool legacy_, samples_, layers_set_, units_set_;
};

void WaveNet::check(const WindowChecks& checks) const {
  const GraphWavenetOptions options = options_of(checks.shape);
  if (checks.shape.inputs > options.receptive_steps())
    user_error(
        "window.inputs = {} is too long: model.blocks = {} and model.block_layers = {} cover {} steps. "
        "Raise model.blocks or model.block_layers, or set window.inputs to at most {}",
        checks.shape.inputs, options.blocks, options.block_layers, options.receptive_steps(),
        options.receptive_steps());
  if (options.layers() < 2)
    user_error(
        "model.blocks = 1 and model.block_layers = 1 make one layer, and the last layer of a graph_wavenet "
        "has no graph convolution. Set one of these keys to 2 or more");
  if (options.powers < 1)
    user_error(
        "model.diffusion_steps = 0 is too few for a graph_wavenet. Set model.diffusion_steps to 1 or more");
  if (!options.adaptive && checks.graph == "none")
    user_error(
        "model.name = \"graph_wavenet\" needs a graph or model.adaptive = true. Set relation.graph, or set "
        "model.adaptive = true");
  const auto refuse = [](bool asked, const char* setting, const char* instead) {
    if (asked) user_error("{} does not work with model.name = \"graph_wavenet\": {}", setting, instead);
  };
  refuse(checks.recompute == Recompute::step, "train.recompute = \"step\"",
         "the model has no recurrent steps. Set train.recompute = \"cell\" to compute the layers again");
  refuse(legacy_, "model.diffusion = \"legacy\"",
         "the model takes powers of its supports. Leave the key out");
  refuse(samples_, "model.sampling_decay",
         "the model forecasts all steps at once. Set model.sampling_decay = 0");
  refuse(layers_set_, "model.layers", "set model.blocks and model.block_layers, and leave model.layers out");
  refuse(units_set_, "model.units", "set model.channels, and leave model.units out");
}

std::shared_ptr<const Architecture> configure(const KeyValues& values) {
  return std::make_shared<WaveNet>(values);
}

std::vector<CalibrationCase> measured() {
  std::vector<CalibrationCase> cases;
  for (const char* widths :
       {"channels = 16\nskip = 64\nend = 128", "channels = 32", "channels = 20\nskip = 96\nend = 200"})
    cases.push_back(calibration_case("graph_wavenet", {12, 16, 6, 12}, widths));
  return cases;
}

constexpr std::string_view graph_wavenet_candidates = R"([[candidate]]
name = "small"
expected = 1.07
model.channels = 16
model.blocks = 5
model.skip = 64
model.end = 128
relation.graph = "auto"
optimiser.lr = 0.005
[[candidate]]
name = "small-adaptive"
expected = 1.07
model.channels = 16
model.blocks = 5
model.skip = 64
model.end = 128
optimiser.lr = 0.005
[[candidate]]
name = "medium"
expected = 1.07
model.channels = 32
model.blocks = 5
model.skip = 128
model.end = 256
relation.graph = "auto"
optimiser.lr = 0.002
)";

}  // namespace

ModelDescriptor graph_wavenet_descriptor() {
  KeyTable keys = keys_of<Settings>(table);
  append<shared::EmbeddingWidths>(keys, shared::embeddings);
  return {.name = "graph_wavenet",
          .of_layers = true,
          .keys = std::move(keys),
          .configure = configure,
          .calibration = measured,
          .small = "channels = 5\nskip = 7\nend = 6\nblocks = 2\nadaptive_width = 3",
          .candidates = graph_wavenet_candidates};
}

}  // namespace rossby
