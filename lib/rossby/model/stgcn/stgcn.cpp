#include "rossby/model/stgcn/stgcn.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/shared_keys.hpp"

namespace rossby {

template <class T>
Stgcn<T>::Linear::Linear(const std::string& name, Index out, Index in, Index steps)
    : weight(name + "_weight", Placement::replicated, {out, steps * in}),
      bias(name + "_bias", Placement::replicated, {out}),
      taps(steps) {}

template <class T>
Stgcn<T>::Block::Block(const std::string& place, const StgcnOptions& options, Index channels, Index terms,
                       Index owned)
    : name(place),
      first(place + "_first", 2 * options.block_channels[0], channels, options.taps),
      graph(place + "_graph", options.block_channels[1], terms * options.block_channels[0]),
      second(place + "_second", 2 * options.block_channels[2], options.block_channels[1], options.taps),
      norm(place + "_norm", owned, options.block_channels[2]) {}

template <class T>
Stgcn<T>::Stgcn(const StgcnOptions& options, Diffusion<T> graph, std::vector<Index> rows, Reducer& row_blocks)
    : options_(options),
      graph_(std::move(graph)),
      rows_(std::move(rows)),
      row_blocks_(&row_blocks),
      output_("output", 2 * options.block_channels[2], options.block_channels[2],
              std::max<Index>(0, options.steps_left())),
      output_norm_("output_norm", std::ssize(rows_), options.block_channels[2]),
      hidden_("hidden", options.block_channels[2], options.block_channels[2]),
      projection_("projection", options.outputs * options.features, options.block_channels[2]) {
  require(options.blocks >= 1 && options.taps >= 1 && options.steps_left() >= 1,
          "an STGCN has blocks and taps, which leave an input step or more");
  require(!options.first_order || (graph_.block && graph_.block->relations == 1),
          "a graph convolution of first order has one support");
  const Index terms = options.first_order ? 1 : graph_.plan.terms;
  const auto add = [this](auto&... parameters) { (all_.push_back(&parameters), ...); };
  for (Index b = 0; b < options.blocks; ++b) {
    const Index channels = b == 0 ? options.channels : options.block_channels[2];
    blocks_.push_back(
        std::make_unique<Block>("block" + std::to_string(b), options, channels, terms, std::ssize(rows_)));
    Block& block = *blocks_.back();
    add(block.first.weight, block.first.bias, block.graph.weight, block.graph.bias, block.second.weight,
        block.second.bias, block.norm.gain, block.norm.bias);
  }
  add(output_.weight, output_.bias, output_norm_.gain, output_norm_.bias, hidden_.weight, hidden_.bias,
      projection_.weight, projection_.bias);
}

template <class T>
void Stgcn<T>::start(std::uint64_t seed) {
  const auto glorot = [seed](Linear& layer) {
    const Random random(seed, "init." + layer.weight.name);
    const Index values = layer.weight.shape[1] + layer.taps * layer.weight.shape[0];
    const double bound = std::sqrt(6.0 / static_cast<double>(values));
    for (Index i = 0; i < layer.weight.size(); ++i)
      layer.weight.value[i] = static_cast<T>(random.uniform(static_cast<std::uint64_t>(i), -bound, bound));
    std::fill(layer.bias.value.begin(), layer.bias.value.end(), T{0});
  };
  for (const auto& block : blocks_) {
    glorot(block->first);
    glorot(block->graph);
    glorot(block->second);
    block->norm.start();
  }
  glorot(output_);
  output_norm_.start();
  glorot(hidden_);
  glorot(projection_);
}

template <class T>
std::vector<Device::Copy> Stgcn<T>::keep_on(Device& device) const {
  std::vector<Device::Copy> copies;
  copies.push_back(device.keep(rows_));
  return copies;
}

/// (rows, input steps · B, channels).
template <class T>
Var<T> Stgcn<T>::inputs(Tape<T>& tape, const WindowSource<T>& source) const {
  const Index windows = source.windows();
  const Var<T> all = tape.make(source.rows(), options_.inputs * windows, options_.channels, false);
  for (Index t = 0; t < options_.inputs; ++t)
    assign(tape, slice_columns(all, t * windows, windows), source.input(tape, t));
  return all;
}

template <class T>
Var<T> Stgcn<T>::gate(Tape<T>& tape, const Setting& setting, const Var<T>& x, Linear& layer) {
  const Var<T> a = column_convolution(tape, x, layer.weight, layer.bias, layer.taps, setting.windows);
  const Index out = a.channels() / 2;
  if (x.channels() <= out)
    add_to(tape, slice_channels(a, 0, x.channels()),
           slice_columns(x, (layer.taps - 1) * setting.windows, a.cols()));
  return gated_linear_unit(tape, a);
}

template <class T>
Var<T> Stgcn<T>::convolve(Tape<T>& tape, const Var<T>& x, Linear& layer) {
  if (!options_.first_order) return relu(tape, diffusion_linear(tape, graph_, x, layer.weight, &layer.bias));
  // Multiply first by the weight that leaves fewer channels, to exchange less.
  const Var<T> y = propagate(tape, graph_, linear(tape, x, layer.weight, nullptr));
  bias_accumulate(tape, y, layer.bias);
  return relu(tape, y);
}

template <class T>
Var<T> Stgcn<T>::drop(Tape<T>& tape, const Setting& setting, Index block, const Var<T>& x) const {
  if (!setting.training || options_.dropout == 0) return x;
  const Random random = Random(options_.seed, "dropout")
                            .at(static_cast<std::uint64_t>(setting.step))
                            .at(static_cast<std::uint64_t>(block));
  return dropout(tape, x, options_.dropout, random, std::span<const Index>(rows_),
                 {setting.keys, options_.inputs, options_.inputs - x.cols() / setting.windows});
}

template <class T>
Var<T> Stgcn<T>::compute(Tape<T>& tape, const Setting& setting, Index b, const Var<T>& x) {
  Block& block = *blocks_[static_cast<std::size_t>(b)];
  const Var<T> h = convolve(tape, gate(tape, setting, x, block.first), block.graph);
  return drop(tape, setting, b,
              layer_norm(tape, gate(tape, setting, h, block.second), block.norm, *row_blocks_));
}

template <class T>
Var<T> Stgcn<T>::run(Tape<T>& tape, const Setting& setting, Index b, const Var<T>& x) {
  const Block& layers = *blocks_[static_cast<std::size_t>(b)];
  const rossby::Block<T> block(tape, layers.name);
  block.reads(x);
  block.trains(&layers.first.weight, &layers.first.bias, &layers.graph.weight, &layers.graph.bias,
               &layers.second.weight, &layers.second.bias, &layers.norm.gain, &layers.norm.bias);
  // Forecasts, too, need only the output of a block.
  if (options_.recompute == Recompute::none && tape.recording())
    return block.hands_on(compute(tape, setting, b, x));
  const Var<T> kept = tape.make(x.rows(), x.cols() - 2 * (options_.taps - 1) * setting.windows,
                                options_.block_channels[2], true);
  tape.recomputed("block", std::span<const Var<T>>(&kept, 1),
                  [this, setting, b, x](Tape<T>& inner, std::span<const Var<T>> out) {
                    assign(inner, out[0], compute(inner, setting, b, x));
                  });
  return block.hands_on(kept);
}

template <class T>
Var<T> Stgcn<T>::head(Tape<T>& tape, const Setting& setting, const Var<T>& x) {
  const rossby::Block<T> block(tape, "head");
  block.reads(x);
  block.trains(&output_.weight, &output_.bias, &output_norm_.gain, &output_norm_.bias, &hidden_.weight,
               &hidden_.bias, &projection_.weight, &projection_.bias);
  const Var<T> y = layer_norm(tape, gate(tape, setting, x, output_), output_norm_, *row_blocks_);
  const Var<T> hidden = sigmoid(tape, linear(tape, y, hidden_.weight, &hidden_.bias));
  return block.hands_on(linear(tape, hidden, projection_.weight, &projection_.bias));
}

template <class T>
void Stgcn<T>::predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                       std::span<Var<T>> outputs) {
  for (std::size_t k = 0; k < sources.size(); ++k)
    predict_one(tape, *sources[k],
                outputs.subspan(k * outputs.size() / sources.size(), outputs.size() / sources.size()));
}

template <class T>
void Stgcn<T>::predict_one(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs) {
  require(source.channels() == options_.channels && source.features() == options_.features,
          "a window has the channels and features that the model was made for");
  require(static_cast<Index>(outputs.size()) <= options_.outputs, "as many output steps as the model has");
  require(source.rows() == std::ssize(rows_), "windows are of the owned rows");
  Setting setting;
  setting.windows = source.windows();
  setting.training = tape.recording();
  setting.step = source.step();
  const auto keys = tape.arena().template take<Index>(setting.windows);
  for (Index b = 0; b < setting.windows; ++b) keys[static_cast<std::size_t>(b)] = source.key(b);
  setting.keys = keys;
  Var<T> x = inputs(tape, source);
  for (Index b = 0; b < options_.blocks; ++b) x = run(tape, setting, b, x);
  const Var<T> all = head(tape, setting, x);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    outputs[k] = slice_channels(all, static_cast<Index>(k) * options_.features, options_.features);
}

template class Stgcn<float>;
template class Stgcn<double>;

namespace {

struct Settings {
  Index blocks = 2;
  std::vector<Index> block_channels;
  Index taps = 3;
  Index order = 2;
  std::string convolution;
  double dropout = 0;
};

constexpr Key<Settings> table[] = {
    key<&Settings::blocks>("model.st_blocks", "2", "",
                           "number of blocks, each with two convolutions over time and one over the graph")
        .range(1, 64)
        .added(),
    key<&Settings::block_channels>(
        "model.block_channels", "[64, 16, 64]", "",
        "channels of the three convolutions of a block: over time, over the graph, over time")
        .range(1, 65536)
        .added(),
    key<&Settings::taps>("model.temporal_kernel", "3", "steps",
                         "kernel size K_t of convolutions over time, in steps")
        .range(1, 1024)
        .added(),
    bind<&Settings::order>(shared::diffusion_steps),
    key<&Settings::convolution>("model.graph_convolution", "\"chebyshev\"", "",
                                "graph convolution: chebyshev: polynomials up to order "
                                "model.diffusion_steps; first_order: first-order approximation")
        .one_of("chebyshev|first_order")
        .added(),
    key<&Settings::dropout>("model.block_dropout", "0", "", "dropout after each block")
        .range(0, 0.999)
        .added(),
};

class SpatioTemporalGcn final : public WindowArchitectureOf<SpatioTemporalGcn> {
 public:
  explicit SpatioTemporalGcn(const KeyValues& values)
      : settings_(read_settings<Settings>(values, table)),
        order_set_(!values.is_default(shared::diffusion_steps.spec.name)) {}

  [[nodiscard]] std::string_view name() const override { return "stgcn"; }
  [[nodiscard]] double entry_cost(int) const override {
    const auto first = static_cast<double>(width(0)), graph = static_cast<double>(width(1)),
               second = static_cast<double>(width(2));
    const auto taps = static_cast<double>(settings_.taps), steps = static_cast<double>(settings_.order);
    const double dense =
        taps * (2 * first * second + 2 * second * graph) + (first_order() ? 1 : steps + 1) * first * graph;
    return (first_order() ? graph : steps * first) / dense;
  }
  [[nodiscard]] Supports supports() const override {
    using enum Supports::Kind;
    return {.kind = first_order() ? symmetric : laplacian, .one_relation = true, .undirected = true};
  }
  [[nodiscard]] ConvolutionShape convolution() const override {
    if (first_order()) return {.channels = width(1)};
    return {width(0), static_cast<int>(settings_.order), DiffusionVariant::paper};
  }
  [[nodiscard]] std::vector<std::string_view> recompute_modes() const override { return {"none", "cell"}; }
  [[nodiscard]] bool normalises_nodes() const override { return true; }
  void check(const WindowChecks& checks) const override;

  template <class T>
  [[nodiscard]] std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const {
    StgcnOptions options = options_of(parts.shape);
    options.channels = parts.channels;
    options.features = parts.features;
    options.seed = parts.seed;
    options.recompute = parts.recompute;
    std::vector<Index> rows;
    for (const GlobalRow row : parts.partition->rows_of(parts.part)) rows.push_back(row.value);
    return std::make_unique<Stgcn<T>>(options, std::move(parts.diffusion), std::move(rows),
                                      *parts.row_blocks);
  }

 private:
  [[nodiscard]] bool first_order() const { return settings_.convolution == "first_order"; }
  /// Returns 1 if the list is too short: check() refuses it.
  [[nodiscard]] Index width(std::size_t convolution) const {
    return convolution < settings_.block_channels.size() ? settings_.block_channels[convolution] : 1;
  }
  [[nodiscard]] StgcnOptions options_of(const WindowShape& shape) const {
    StgcnOptions options;
    options.inputs = shape.inputs;
    options.outputs = shape.outputs;
    options.blocks = settings_.blocks;
    options.block_channels = {width(0), width(1), width(2)};
    options.taps = settings_.taps;
    options.first_order = first_order();
    options.dropout = settings_.dropout;
    return options;
  }

  Settings settings_;
  bool order_set_;
};

void SpatioTemporalGcn::check(const WindowChecks& checks) const {
  if (settings_.block_channels.size() != 3)
    user_error(
        "model.block_channels has {} numbers, but a block of an stgcn has 3 convolutions. Give three numbers",
        settings_.block_channels.size());
  const Index used = 2 * settings_.blocks * (settings_.taps - 1);
  if (options_of(checks.shape).steps_left() < 1)
    user_error(
        "window.inputs = {} is too short: model.st_blocks = {} and model.temporal_kernel = {} consume {} "
        "steps and need one more. Set window.inputs to at least {}, or lower model.st_blocks or "
        "model.temporal_kernel",
        checks.shape.inputs, settings_.blocks, settings_.taps, used, used + 1);
  if (checks.recompute == Recompute::step)
    user_error(
        "train.recompute = \"step\" is not for model.name = \"stgcn\": the model has no recurrent steps. Set "
        "train.recompute = \"cell\" to compute the blocks again");
  if (first_order() && order_set_)
    user_error(
        "model.diffusion_steps is not for model.graph_convolution = \"first_order\". Leave the key out");
  if (!first_order() && settings_.order < 1)
    user_error(
        "model.diffusion_steps = 0: Chebyshev polynomials of order 0 see no neighbours. Set "
        "model.diffusion_steps to 1 or more");
}

std::shared_ptr<const Architecture> configure(const KeyValues& values) {
  return std::make_shared<SpatioTemporalGcn>(values);
}

std::vector<CalibrationCase> measured() {
  std::vector<CalibrationCase> cases;
  for (const char* widths : {"block_channels = [32, 16, 32]", "block_channels = [64, 16, 64]",
                             "block_channels = [20, 12, 24]\nst_blocks = 1"})
    cases.push_back(calibration_case("stgcn", {12, 16, 6, 12}, widths));
  return cases;
}

constexpr std::string_view stgcn_candidates = R"([[candidate]]
name = "small"
expected = 1.11
model.st_blocks = 1
model.block_channels = [32, 16, 32]
model.temporal_kernel = 2
relation.graph = "auto"
optimiser.lr = 0.005
[[candidate]]
name = "medium"
expected = 1.11
model.temporal_kernel = 2
relation.graph = "auto"
optimiser.lr = 0.002
)";

}  // namespace

ModelDescriptor stgcn_descriptor() {
  return {.name = "stgcn",
          .keys = keys_of<Settings>(table),
          .configure = configure,
          .calibration = measured,
          .small = "st_blocks = 1\nblock_channels = [5, 3, 4]\ntemporal_kernel = 2\nblock_dropout = 0.3",
          .candidates = stgcn_candidates};
}

}  // namespace rossby
