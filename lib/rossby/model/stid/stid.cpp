#include "rossby/model/stid/stid.hpp"

#include <cmath>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/convolution.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/autograd/relate.hpp"
#include "rossby/base/random.hpp"

namespace rossby {

template <class T>
Stid<T>::Linear::Linear(const std::string& name, Index out, Index in)
    : weight(name + "_weight", Placement::replicated, {out, in}),
      bias(name + "_bias", Placement::replicated, {out}) {}

template <class T>
Stid<T>::Layer::Layer(const std::string& place, Index width, Index relations)
    : name(place),
      hidden(place + "_hidden", width, (1 + relations) * width),
      output(place + "_output", width, width) {}

template <class T>
Stid<T>::Stid(const StidOptions& options, const EmbeddingShape& embeddings, std::vector<Index> rows,
              Reducer* row_blocks, Diffusion<T> graph)
    : options_(options),
      rows_(std::move(rows)),
      no_ghosts_(std::ssize(rows_)),
      low_rank_u_("low_rank_u", Placement::rows, {1, std::ssize(rows_), options.rank}),
      low_rank_v_("low_rank_v", Placement::rows, {1, std::ssize(rows_), options.rank}),
      embeddings_(embeddings, rows_),
      input_("input", options.width,
             options.inputs * options.channels * (options.rank > 0 && !options.deep ? 2 : 1)),
      projection_("projection", options.outputs * options.features, options.width + embeddings.width()) {
  require(options.inputs >= 1 && options.width >= 1 && options.layers >= 0,
          "an STID has inputs and an embedding of them");
  make_bank(row_blocks, std::move(graph));
  const auto add = [this](auto&... parameters) { (all_.push_back(&parameters), ...); };
  add(input_.weight, input_.bias);
  if (options.rank > 0) add(low_rank_u_, low_rank_v_);
  embeddings_.append_to(all_);
  for (Index l = 0; l < options.layers; ++l) {
    layers_.push_back(std::make_unique<Layer>("layer" + std::to_string(l), options.width + embeddings.width(),
                                              options.deep ? bank_.relations() : 0));
    Layer& layer = *layers_.back();
    add(layer.hidden.weight, layer.hidden.bias, layer.output.weight, layer.output.bias);
  }
  add(projection_.weight, projection_.bias);
}

template <class T>
void Stid<T>::make_bank(Reducer* row_blocks, Diffusion<T> graph) {
  const bool has_graph = graph.block && graph.block->relations > 0;
  require(options_.deep || !has_graph, "the embedding of inputs reads no graph");
  if (!has_graph && options_.rank == 0) return;
  require(row_blocks && options_.nodes >= std::ssize(rows_), "a relation sums over the nodes of all ranks");
  bank_.nodes = options_.nodes;
  bank_.rows = std::ssize(rows_);
  bank_.exchange = has_graph ? graph.exchange : &no_ghosts_;
  bank_.reducer = row_blocks;
  if (has_graph) {
    RelationTerm<T>& term = bank_.terms.emplace_back();
    term.relations = graph.block->relations;
    term.sparse = graph.block;
    term.fixed = std::move(graph.weight);
    bank_.classify_rows();
  }
  if (options_.rank > 0) {
    RelationTerm<T>& term = bank_.terms.emplace_back();
    term.kind = RelationTerm<T>::Kind::low_rank;
    term.u = &low_rank_u_;
    term.v = &low_rank_v_;
  }
  bank_.name_op();
}

template <class T>
void Stid<T>::start(std::uint64_t seed) {
  const auto fill = [seed](Linear& layer) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer.weight.shape[1]));
    for (Parameter<T>* parameter : {&layer.weight, &layer.bias}) {
      const Random random(seed, "init." + parameter->name);
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] = static_cast<T>(random.uniform(static_cast<std::uint64_t>(i), -bound, bound));
    }
  };
  fill(input_);
  for (Parameter<T>* factor : {&low_rank_u_, &low_rank_v_}) {
    const Index rank = options_.rank;
    const Random random(seed, "init." + factor->name);
    for (Index i = 0; i < factor->size(); ++i) {
      const Index place = rows_[static_cast<std::size_t>(i / rank)] * rank + i % rank;
      factor->value[i] = static_cast<T>(random.normal(static_cast<std::uint64_t>(place)) /
                                        std::sqrt(static_cast<double>(rank)));
    }
  }
  embeddings_.start(seed);
  for (const auto& layer : layers_) {
    fill(layer->hidden);
    fill(layer->output);
  }
  fill(projection_);
}

template <class T>
std::vector<Device::Copy> Stid<T>::keep_on(Device& device) const {
  std::vector<Device::Copy> copies;
  copies.push_back(device.keep(rows_));
  for (Device::Copy& copy : bank_.keep_on(device)) copies.push_back(std::move(copy));
  return copies;
}

/// Computes the parts of z_0 in place, side by side.
template <class T>
Var<T> Stid<T>::embed(Tape<T>& tape, const WindowSource<T>& source) {
  const Index rows = source.rows(), windows = source.windows(), channels = options_.channels;
  const Var<T> x = tape.make(rows, windows, options_.inputs * channels, false);
  for (Index t = 0; t < options_.inputs; ++t)
    assign(tape, slice_channels(x, t * channels, channels), source.input(tape, t));
  const rossby::Block<T> block(tape, "embedding");
  block.reads(x);
  block.trains(&input_.weight, &input_.bias);
  embeddings_.trained_in(block);
  const Var<T> z = zeros(tape, rows, windows, options_.width + embeddings_.width(), true);
  const Var<T> of_inputs = slice_channels(z, 0, options_.width);
  if (related() && !options_.deep) {
    block.trains(&low_rank_u_, &low_rank_v_);
    assign(tape, of_inputs, relate_linear(tape, bank_, x, input_.weight, &input_.bias));
  } else {
    linear_accumulate(tape, of_inputs, x, input_.weight, 0);
    bias_accumulate(tape, of_inputs, input_.bias);
  }
  if (embeddings_.width() > 0)
    embeddings_.add(tape, slice_channels(z, options_.width, embeddings_.width()),
                    embeddings_.phases(tape, source, options_.inputs - 1));
  return block.hands_on(z);
}

template <class T>
Var<T> Stid<T>::compute(Tape<T>& tape, const Setting& setting, Index l, const Var<T>& z) {
  Layer& layer = *layers_[static_cast<std::size_t>(l)];
  Var<T> h = relu(tape, related() && options_.deep
                            ? relate_linear(tape, bank_, z, layer.hidden.weight, &layer.hidden.bias)
                            : linear(tape, z, layer.hidden.weight, &layer.hidden.bias));
  if (setting.training && options_.dropout > 0) {
    const Random random = Random(options_.seed, "dropout")
                              .at(static_cast<std::uint64_t>(setting.step))
                              .at(static_cast<std::uint64_t>(l));
    h = dropout(tape, h, options_.dropout, random, std::span<const Index>(rows_), setting.keys);
  }
  const Var<T> y = linear(tape, h, layer.output.weight, &layer.output.bias);
  add_to(tape, y, z);
  return y;
}

template <class T>
Var<T> Stid<T>::run(Tape<T>& tape, const Setting& setting, Index l, const Var<T>& z) {
  const Layer& layer = *layers_[static_cast<std::size_t>(l)];
  const rossby::Block<T> block(tape, layer.name);
  block.reads(z);
  block.trains(&layer.hidden.weight, &layer.hidden.bias, &layer.output.weight, &layer.output.bias);
  if (options_.rank > 0 && options_.deep) block.trains(&low_rank_u_, &low_rank_v_);
  // Forecasts, too, need only the output of a layer.
  if (options_.recompute == Recompute::none && tape.recording())
    return block.hands_on(compute(tape, setting, l, z));
  const Var<T> kept = tape.make(z.rows(), z.cols(), z.channels(), true);
  tape.recomputed("layer", std::span<const Var<T>>(&kept, 1),
                  [this, setting, l, z](Tape<T>& inner, std::span<const Var<T>> out) {
                    assign(inner, out[0], compute(inner, setting, l, z));
                  });
  return block.hands_on(kept);
}

template <class T>
void Stid<T>::predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                      std::span<Var<T>> outputs) {
  for (std::size_t k = 0; k < sources.size(); ++k)
    predict_one(tape, *sources[k],
                outputs.subspan(k * outputs.size() / sources.size(), outputs.size() / sources.size()));
}

template <class T>
void Stid<T>::predict_one(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs) {
  require(source.channels() == options_.channels && source.features() == options_.features,
          "a window has the channels and features that the model was made for");
  require(static_cast<Index>(outputs.size()) <= options_.outputs, "as many output steps as the model has");
  require(source.rows() == std::ssize(rows_), "windows are of the owned rows");
  Setting setting;
  setting.training = tape.recording();
  setting.step = source.step();
  const auto keys = tape.arena().template take<Index>(source.windows());
  for (Index b = 0; b < source.windows(); ++b) keys[static_cast<std::size_t>(b)] = source.key(b);
  setting.keys = keys;
  Var<T> z = embed(tape, source);
  for (Index l = 0; l < options_.layers; ++l) z = run(tape, setting, l, z);
  const rossby::Block<T> block(tape, "projection");
  block.reads(z);
  block.trains(&projection_.weight, &projection_.bias);
  const Var<T> all = block.hands_on(linear(tape, z, projection_.weight, &projection_.bias));
  for (std::size_t k = 0; k < outputs.size(); ++k)
    outputs[k] = slice_channels(all, static_cast<Index>(k) * options_.features, options_.features);
}

template class Stid<float>;
template class Stid<double>;

}  // namespace rossby
