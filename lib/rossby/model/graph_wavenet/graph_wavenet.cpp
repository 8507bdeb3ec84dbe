#include "rossby/model/graph_wavenet/graph_wavenet.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/base/random.hpp"

namespace rossby {
namespace {

constexpr Index taps = 2;  // of the convolutions over time

template <class T>
void uniform(Parameter<T>& values, std::uint64_t seed, Index inputs) {
  const Random random(seed, "init." + values.name);
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  for (Index i = 0; i < values.size(); ++i)
    values.value[i] = static_cast<T>(random.uniform(static_cast<std::uint64_t>(i), -bound, bound));
}

}  // namespace

template <class T>
GraphWavenet<T>::Linear::Linear(const std::string& name, Index out, Index in)
    : weight(name + "_weight", Placement::replicated, {out, in}),
      bias(name + "_bias", Placement::replicated, {out}) {}

template <class T>
GraphWavenet<T>::Layer::Layer(const std::string& place, const GraphWavenetOptions& options, Index d,
                              bool last, Index terms)
    : name(place),
      dilation(d),
      gate(place + "_gate", 2 * options.width, taps * options.width),
      skip(place + "_skip", options.skip, options.width) {
  if (last) return;
  graph.emplace(place + "_graph", options.width, terms * options.width);
  if (options.adaptive)
    adaptive.emplace(place + "_adaptive_weight", Placement::replicated,
                     std::vector<Index>{options.width, options.powers * options.width});
  norm.emplace(place + "_norm", options.width);
}

template <class T>
GraphWavenet<T>::GraphWavenet(const GraphWavenetOptions& options, Diffusion<T> graph, AllNodes nodes,
                              Reducer& everyone, const EmbeddingShape& embeddings,
                              std::span<const Index> rows)
    : options_(options),
      graph_(std::move(graph)),
      nodes_(std::move(nodes)),
      everyone_(&everyone),
      embeddings_(embeddings, rows),
      start_("start", options.width, options.channels),
      embedding_("embedding_weight", Placement::replicated, {options.width, embeddings_.width()}),
      hidden_("hidden", options.end, options.skip),
      projection_("projection", options.outputs * options.features, options.end) {
  require(options.blocks >= 1 && options.block_layers >= 1 && options.powers >= 1,
          "a Graph WaveNet has blocks, layers and powers");
  require(options.inputs >= 1 && options.inputs <= options.receptive_steps(),
          "a Graph WaveNet sees all its input steps");
  require(!options.pipeline.on() || embeddings_.width() == 0, "learned vectors are for one stage");
  require(!options.pipeline.on() || std::ssize(options.stage_of) == options.layers(),
          "every layer has a stage");
  const auto add = [this](auto&... parameters) { (all_.push_back(&parameters), ...); };
  add(start_.weight, start_.bias);
  for (Index l = 0; l < options.layers(); ++l) {
    layers_.push_back(std::make_unique<Layer>("layer" + std::to_string(l), options,
                                              Index{1} << l % options.block_layers, l + 1 == options.layers(),
                                              graph_.plan.terms));
    Layer& layer = *layers_.back();
    add(layer.gate.weight, layer.gate.bias, layer.skip.weight, layer.skip.bias);
    if (layer.graph) add(layer.graph->weight, layer.graph->bias);
    if (layer.adaptive) add(*layer.adaptive);
    if (layer.norm)
      add(layer.norm->gain, layer.norm->bias, layer.norm->running_mean, layer.norm->running_variance);
  }
  add(hidden_.weight, hidden_.bias, projection_.weight, projection_.bias);
  if (embeddings_.width() > 0) add(embedding_);
  embeddings_.append_to(all_);
  if (!options.adaptive) return;
  const std::vector<Index> shape{nodes_.rows(), options.adaptive_width};
  add(source_factors_.emplace("source_factors", Placement::replicated, shape),
      target_factors_.emplace("target_factors", Placement::replicated, shape));
}

template <class T>
void GraphWavenet<T>::start(std::uint64_t seed) {
  const auto both = [seed](Linear& linear, Index inputs) {
    uniform(linear.weight, seed, inputs);
    uniform(linear.bias, seed, inputs);
  };
  both(start_, options_.channels + embeddings_.width());
  if (embeddings_.width() > 0) uniform(embedding_, seed, options_.channels + embeddings_.width());
  embeddings_.start(seed);
  for (const auto& layer : layers_) {
    both(layer->gate, taps * options_.width);
    both(layer->skip, options_.width);
    // One convolution over all terms, split into two weights.
    const Index terms = graph_.plan.terms + (options_.adaptive ? options_.powers : 0);
    if (layer->graph) both(*layer->graph, terms * options_.width);
    if (layer->adaptive) uniform(*layer->adaptive, seed, terms * options_.width);
    if (layer->norm) layer->norm->start();
  }
  both(hidden_, options_.skip);
  both(projection_, options_.end);
  for (auto* factors : {&source_factors_, &target_factors_}) {
    if (!*factors) continue;
    Parameter<T>& table = **factors;
    const Random random(seed, "init." + table.name);
    for (Index i = 0; i < table.size(); ++i)
      table.value[i] = static_cast<T>(random.normal(static_cast<std::uint64_t>(i)));
  }
}

template <class T>
std::vector<LearnedRelation> GraphWavenet<T>::learned_relations() const {
  if (!source_factors_) return {};
  LearnedRelation adaptive;
  adaptive.name = "adaptive";
  adaptive.row_acts = true;
  const auto row_of = [this](const std::optional<Parameter<T>>& table) {
    return [this, &table](Index row, std::span<float> values) {
      const Index k = table->shape[1], first = nodes_.own()[static_cast<std::size_t>(row)] * k;
      for (Index c = 0; c < k; ++c)
        values[static_cast<std::size_t>(c)] = static_cast<float>(table->value[first + c]);
    };
  };
  adaptive.factors.width = source_factors_->shape[1];
  adaptive.factors.left = row_of(source_factors_);
  adaptive.factors.right = row_of(target_factors_);
  adaptive.factors.finish = [](std::span<double> scores) {
    double most = 0, sum = 0;
    for (double& score : scores) most = std::max(most, score = std::max(score, 0.0));
    for (double& score : scores) sum += score = std::exp(score - most);
    for (double& score : scores) score /= sum;
  };
  return {adaptive};
}

template <class T>
std::vector<Device::Copy> GraphWavenet<T>::keep_on(Device& device) const {
  std::vector<Device::Copy> copies;
  copies.push_back(device.keep(nodes_.global));
  return copies;
}

/// Returns (rows, receptive steps · B, channels); steps before the first one are zero.
template <class T>
Var<T> GraphWavenet<T>::padded_inputs(Tape<T>& tape, const WindowSource<T>& source) const {
  const Index windows = source.windows(), padding = options_.receptive_steps() - options_.inputs;
  const Var<T> all =
      zeros(tape, source.rows(), options_.receptive_steps() * windows, options_.channels, false);
  for (Index t = 0; t < options_.inputs; ++t)
    assign(tape, slice_columns(all, (padding + t) * windows, windows), source.input(tape, t));
  return all;
}

template <class T>
Var<T> GraphWavenet<T>::drop(Tape<T>& tape, const Setting& setting, const Var<T>& h) {
  if (!setting.training || options_.dropout == 0) return h;
  const Random random = Random(options_.seed, "dropout")
                            .at(static_cast<std::uint64_t>(setting.step))
                            .at(static_cast<std::uint64_t>(setting.layer));
  return dropout(tape, h, options_.dropout, random, nodes_.own(),
                 {setting.keys, options_.receptive_steps(), setting.first_step});
}

template <class T>
Var<T> GraphWavenet<T>::convolve(Tape<T>& tape, const Setting& setting, const Var<T>& y) {
  Layer& layer = *layers_[static_cast<std::size_t>(setting.layer)];
  const Var<T> h = diffusion_linear(tape, graph_, y, layer.graph->weight, &layer.graph->bias);
  Var<T> z = y;
  for (Index k = 0; layer.adaptive && k < options_.powers; ++k) {
    z = spread(tape, nodes_, setting.adjacency, z);
    linear_accumulate(tape, h, z, *layer.adaptive, k * options_.width);
  }
  return h;
}

/// Computes a layer except its normalisation, whose statistics may be taken only once.
template <class T>
typename GraphWavenet<T>::Outcome GraphWavenet<T>::compute(Tape<T>& tape, const Setting& setting,
                                                           const Var<T>& x) {
  Layer& layer = *layers_[static_cast<std::size_t>(setting.layer)];
  const Index width = options_.width, windows = setting.windows, shift = layer.dilation * windows;
  const Var<T> a = column_convolution(tape, x, layer.gate.weight, layer.gate.bias, taps, shift);
  // tanh ∘ sigmoid is a reset gate on another pre-activation.
  const Var<T> y = gru_reset(tape, slice_channels(a, width, width), tanh(tape, slice_channels(a, 0, width)));
  Outcome outcome;
  outcome.last = tape.make(y.rows(), windows, width, y.tracked());
  assign(tape, outcome.last, slice_columns(y, y.cols() - windows, windows));
  if (!layer.graph) return outcome;
  outcome.h = drop(tape, setting, convolve(tape, setting, y));
  add_to(tape, outcome.h, slice_columns(x, shift, y.cols()));
  return outcome;
}

template <class T>
typename GraphWavenet<T>::Outcome GraphWavenet<T>::run(Tape<T>& tape, const Setting& setting,
                                                       const Var<T>& x) {
  const Layer& layer = *layers_[static_cast<std::size_t>(setting.layer)];
  const Block<T> block(tape, layer.name);
  block.reads(x);
  if (layer.adaptive) block.reads(setting.adjacency);
  block.trains(&layer.gate.weight, &layer.gate.bias);
  if (layer.graph) block.trains(&layer.graph->weight, &layer.graph->bias);
  if (layer.adaptive) block.trains(&*layer.adaptive);
  const auto handed_on = [&](const Outcome& outcome) {
    (void)block.hands_on(outcome.last);
    if (layer.graph) (void)block.hands_on(outcome.h);
    return outcome;
  };
  // Forecasts need only what a layer hands on.
  if (options_.recompute == Recompute::none && tape.recording()) return handed_on(compute(tape, setting, x));
  const Index cols = x.cols() - layer.dilation * setting.windows;
  Outcome kept;
  kept.last = tape.make(x.rows(), setting.windows, options_.width, true);
  if (layer.graph) kept.h = tape.make(x.rows(), cols, options_.width, true);
  const Var<T> outputs[] = {kept.last, kept.h};
  tape.recomputed("layer", std::span<const Var<T>>(outputs, layer.graph ? 2 : 1),
                  [this, setting, x](Tape<T>& inner, std::span<const Var<T>> out) {
                    const Outcome outcome = compute(inner, setting, x);
                    assign(inner, out[0], outcome.last);
                    if (out.size() > 1) assign(inner, out[1], outcome.h);
                  });
  return handed_on(kept);
}

/// Maps the series' channels and learned vectors to the model's width.
template <class T>
Var<T> GraphWavenet<T>::open(Tape<T>& tape, const WindowSource<T>& source) {
  const Var<T> inputs = padded_inputs(tape, source);
  const Block<T> block(tape, "start");
  block.reads(inputs);
  block.trains(&start_.weight, &start_.bias);
  const Var<T> x = linear(tape, inputs, start_.weight, &start_.bias);
  if (embeddings_.width() == 0) return block.hands_on(x);
  block.trains(&embedding_);
  embeddings_.trained_in(block);
  const Index windows = source.windows(), padding = options_.receptive_steps() - options_.inputs;
  for (Index t = 0; t < options_.inputs; ++t)
    embeddings_.add_product(tape, slice_columns(x, (padding + t) * windows, windows), embedding_,
                            embeddings_.phases(tape, source, t));
  return block.hands_on(x);
}

/// Adds a layer's contribution to the sum that the head reads.
template <class T>
void GraphWavenet<T>::add_skip(Tape<T>& tape, Layer& layer, const Var<T>& last, Var<T>& skip) {
  const Block<T> block(tape, "skip");
  block.reads(last);
  block.trains(&layer.skip.weight, &layer.skip.bias);
  if (!skip.value.data) {
    skip = linear(tape, last, layer.skip.weight, &layer.skip.bias);
  } else {
    linear_accumulate(tape, skip, last, layer.skip.weight, 0);
    bias_accumulate(tape, skip, layer.skip.bias);
  }
  (void)block.hands_on(skip);
}

template <class T>
Var<T> GraphWavenet<T>::make_adjacency(Tape<T>& tape) {
  if (!options_.adaptive) return {};
  const Block<T> block(tape, "adjacency");
  block.trains(&*source_factors_, &*target_factors_);
  return block.hands_on(adaptive_adjacency(tape, nodes_, *source_factors_, *target_factors_));
}

template <class T>
void GraphWavenet<T>::predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                              std::span<Var<T>> outputs) {
  const Pipeline pipeline = tape.recording() ? options_.pipeline : Pipeline{};
  const Var<T> adjacency = make_adjacency(tape);
  for (std::size_t k = 0; k < sources.size(); ++k)
    predict_one(tape, pipeline, *sources[k], adjacency,
                outputs.subspan(k * outputs.size() / sources.size(), outputs.size() / sources.size()));
  if (pipeline.on()) share_running(tape);
}

template <class T>
void GraphWavenet<T>::predict_one(Tape<T>& tape, const Pipeline& pipeline, const WindowSource<T>& source,
                                  const Var<T>& adjacency, std::span<Var<T>> outputs) {
  require(source.channels() == options_.channels && source.features() == options_.features,
          "a window has the channels and features that the model was made for");
  require(static_cast<Index>(outputs.size()) <= options_.outputs, "as many output steps as the model has");
  require(source.rows() == nodes_.owned, "windows are of the owned rows");
  Setting setting;
  setting.windows = source.windows();
  setting.training = tape.recording();
  setting.step = source.step();
  setting.adjacency = adjacency;
  const auto keys = tape.arena().template take<Index>(setting.windows);
  for (Index b = 0; b < setting.windows; ++b) keys[static_cast<std::size_t>(b)] = source.key(b);
  setting.keys = keys;
  int before = stage_of(0);
  Var<T> x, skip;
  if (pipeline.does(before)) x = open(tape, source);
  for (Index l = 0; l < options_.layers(); ++l) {
    Layer& layer = *layers_[static_cast<std::size_t>(l)];
    const Index cols = (options_.receptive_steps() - setting.first_step) * setting.windows;
    const int owner = stage_of(l);
    x = hand_over(tape, pipeline, x, nodes_.owned, cols, options_.width, before, owner);
    if (l > 0)
      skip = hand_over(tape, pipeline, skip, nodes_.owned, setting.windows, options_.skip, before, owner);
    before = owner;
    setting.layer = l;
    setting.first_step += layer.dilation;
    if (!pipeline.does(owner)) continue;
    const Outcome outcome = run(tape, setting, x);
    add_skip(tape, layer, outcome.last, skip);
    if (!layer.norm) continue;
    const Block<T> block(tape, layer.name + "_norm");
    block.reads(outcome.h);
    block.trains(&layer.norm->gain, &layer.norm->bias);
    x = block.hands_on(batch_norm(tape, outcome.h, *layer.norm, setting.training, *everyone_));
  }
  if (!pipeline.does(before)) return;
  const Block<T> block(tape, "head");
  block.reads(skip);
  block.trains(&hidden_.weight, &hidden_.bias, &projection_.weight, &projection_.bias);
  const Var<T> hidden = relu(tape, linear(tape, relu(tape, skip), hidden_.weight, &hidden_.bias));
  const Var<T> all = block.hands_on(linear(tape, hidden, projection_.weight, &projection_.bias));
  for (std::size_t k = 0; k < outputs.size(); ++k)
    outputs[k] = slice_channels(all, static_cast<Index>(k) * options_.features, options_.features);
}

/// Every stage forecasts with all layers and therefore needs the running statistics of the others.
template <class T>
void GraphWavenet<T>::share_running(Tape<T>& tape) {
  const Pipeline& pipeline = options_.pipeline;
  const auto each = [this](const auto& act) {
    for (Index l = 0; l < options_.layers(); ++l)
      if (auto& norm = layers_[static_cast<std::size_t>(l)]->norm)
        for (Parameter<T>* values : {&norm->running_mean, &norm->running_variance}) act(l, *values);
  };
  running_.clear();
  if (Device* device = tape.exec().device) {
    each([&](Index, Parameter<T>& values) { values.fetch(); });
    device->wait();
  }
  each([&](Index l, Parameter<T>& values) {
    for (const T value : values.value.span())
      running_.push_back(pipeline.does(stage_of(l)) ? static_cast<double>(value) : 0);
  });
  pipeline.reducer->sum(running_);
  auto next = running_.begin();
  each([&](Index, Parameter<T>& values) {
    for (T& value : values.value.span()) value = static_cast<T>(*next++);
    if (tape.exec().device) values.send();
  });
  if (BlockTrace* trace = tape.trace())
    trace->note("stage_reduction", {0, 0, 1, static_cast<double>(running_.size() * sizeof(double))});
}

template class GraphWavenet<float>;
template class GraphWavenet<double>;

}  // namespace rossby
