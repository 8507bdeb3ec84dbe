#include "rossby/model/dcrnn/dcrnn.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/elementwise.hpp"

namespace rossby {
namespace {

/// Fills rows [first, last) of a weight with normal values of this deviation.
template <class T>
void normal_rows(Parameter<T>& weight, std::uint64_t seed, Index first, Index last, double deviation) {
  const Random random(seed, "init." + weight.name);
  const Index width = weight.shape[1];
  for (Index i = first * width; i < last * width; ++i)
    weight.value[i] = static_cast<T>(deviation * random.normal(static_cast<std::uint64_t>(i)));
}

double glorot(Index inputs, Index outputs) {
  return std::sqrt(2.0 / static_cast<double>(inputs + outputs));
}

template <class T>
Var<T> zero_state(Tape<T>& tape, Index rows, Index cols, Index channels) {
  const Var<T> state = tape.make(rows, cols, channels, false);
  clear(tape.exec(), state.value.data, state.value.size());
  return state;
}

}  // namespace

template <class T>
Dcrnn<T>::Cell::Cell(const std::string& place, Index channels, Index units, Index terms, Index known_channels,
                     Index embedding_width)
    : name(place),
      input(place + "_input_weight", Placement::replicated, {3 * units, terms * channels}),
      gates(place + "_gates_weight", Placement::replicated, {2 * units, terms * units}),
      candidate(place + "_candidate_weight", Placement::replicated, {units, terms * units}),
      bias(place + "_bias", Placement::replicated, {3 * units}) {
  const auto make = [&](const char* what, Index inputs) {
    return std::make_unique<Parameter<T>>(place + what, Placement::replicated,
                                          std::vector<Index>{3 * units, inputs});
  };
  if (known_channels > 0) known = make("_known_weight", terms * known_channels);
  if (embedding_width > 0) embedding = make("_embedding_weight", embedding_width);
}

template <class T>
Dcrnn<T>::Dcrnn(const DcrnnOptions& options, Diffusion<T> diffusion, const EmbeddingShape& embeddings,
                std::span<const Index> rows)
    : options_(options),
      diffusion_(std::move(diffusion)),
      embeddings_(embeddings, rows),
      projection_("projection_weight", Placement::replicated, {options.features, options.units}),
      projection_bias_("projection_bias", Placement::replicated, {options.features}) {
  require(options.layers >= 1 && options.layers <= most_layers, "a DCRNN has 1 to 16 layers");
  require(options.units >= 1 && options.inputs >= 1, "a DCRNN has units and input steps");
  require(!options.pipeline.on() || embeddings_.width() == 0, "learned vectors are for one stage");
  require(!options.pipeline.on() ||
              (std::ssize(options.stage_of) == 2 * options.layers && options.recompute != Recompute::step),
          "every layer has a stage, and no time step is computed again in several");
  for (const char* place : {"encoder", "decoder"})
    for (int layer = 0; layer < options.layers; ++layer) {
      const Index first = place[0] == 'e' ? options.channels : options.fed();
      cells_.push_back(std::make_unique<Cell>(
          place + std::to_string(layer), layer == 0 ? first : options.units, options.units,
          diffusion_.plan.terms, place[0] == 'd' && layer == 0 ? options.known : 0,
          layer == 0 ? embeddings_.width() : 0));
      Cell& cell = *cells_.back();
      all_.insert(all_.end(), {&cell.input, &cell.gates, &cell.candidate, &cell.bias});
      if (cell.known) all_.push_back(cell.known.get());
      if (cell.embedding) all_.push_back(cell.embedding.get());
    }
  embeddings_.append_to(all_);
  all_.insert(all_.end(), {&projection_, &projection_bias_});
}

template <class T>
void Dcrnn<T>::start(std::uint64_t seed) {
  const Index units = options_.units;
  for (const auto& cell : cells_) {
    const Index inputs = cell->input.shape[1] + cell->gates.shape[1] +
                         (cell->known ? cell->known->shape[1] : 0) +
                         (cell->embedding ? cell->embedding->shape[1] : 0);
    const double gates = glorot(inputs, 2 * units), candidate = glorot(inputs, units);
    normal_rows(cell->input, seed, 0, 2 * units, gates);
    normal_rows(cell->input, seed, 2 * units, 3 * units, candidate);
    normal_rows(cell->gates, seed, 0, 2 * units, gates);
    normal_rows(cell->candidate, seed, 0, units, candidate);
    for (Parameter<T>* further : {cell->known.get(), cell->embedding.get()}) {
      if (!further) continue;
      normal_rows(*further, seed, 0, 2 * units, gates);
      normal_rows(*further, seed, 2 * units, 3 * units, candidate);
    }
    std::fill_n(cell->bias.value.data(), 2 * units, T{1});
    std::fill_n(cell->bias.value.data() + 2 * units, units, T{0});
  }
  embeddings_.start(seed);
  normal_rows(projection_, seed, 0, options_.features, glorot(units, options_.features));
  std::fill(projection_bias_.value.begin(), projection_bias_.value.end(), T{0});
}

template <class T>
Var<T> Dcrnn<T>::forward(Tape<T>& tape, Cell& cell, const Input& input, const Var<T>& h) {
  const Index units = options_.units;
  const bool gates = gates_add_bias(tape.exec());
  const Var<T> a = diffusion_linear(tape, diffusion_, input.x, cell.input, &cell.bias, !gates);
  if (cell.known) diffusion_linear_accumulate(tape, a, diffusion_, input.known, *cell.known);
  if (cell.embedding) embeddings_.add_product(tape, a, *cell.embedding, input.phases);
  const T* bias = gates ? cell.bias.data(tape.exec().device) : nullptr;
  const auto bias_of = [&](Index gate) { return bias ? bias + gate * units : nullptr; };
  diffusion_linear_accumulate(tape, slice_channels(a, 0, 2 * units), diffusion_, h, cell.gates);
  const Var<T> reset = gru_reset(tape, slice_channels(a, 0, units), h, bias_of(0));
  diffusion_linear_accumulate(tape, slice_channels(a, 2 * units, units), diffusion_, reset, cell.candidate);
  return gru_output(tape, slice_channels(a, units, units), slice_channels(a, 2 * units, units), h, bias_of(1),
                    bias_of(2));
}

template <class T>
Var<T> Dcrnn<T>::cell(Tape<T>& tape, bool decoder, int layer, const Input& input, const Var<T>& h) {
  Cell& cell = cell_of(decoder, layer);
  const Block<T> block(tape, cell.name);
  block.reads(input.x);
  block.reads(h);
  block.trains(&cell.input, &cell.gates, &cell.candidate, &cell.bias);
  if (cell.known) {
    block.reads(input.known);
    block.trains(cell.known.get());
  }
  if (cell.embedding) {
    block.trains(cell.embedding.get());
    embeddings_.trained_in(block);
  }
  // Forecasts need no more than the state, so they are computed like recomputed cells.
  if (options_.recompute != Recompute::cell && tape.recording())
    return block.hands_on(forward(tape, cell, input, h));
  const Var<T> state = tape.make(h.rows(), h.cols(), h.channels(), true);
  tape.recomputed("cell", std::span<const Var<T>>(&state, 1),
                  [this, &cell, input, h](Tape<T>& inner, std::span<const Var<T>> outputs) {
                    assign(inner, outputs[0], forward(inner, cell, input, h));
                  });
  return block.hands_on(state);
}

/// This stage knows layers of other stages only by the values that they hand over.
template <class T>
void Dcrnn<T>::advance_layers(Tape<T>& tape, bool decoder, const Input& input, States& states,
                              Var<T>* output) {
  Var<T> x = input.x;
  int before = stage_of(decoder, 0);
  for (int layer = 0; layer < options_.layers; ++layer) {
    const int owner = stage_of(decoder, layer);
    x = hand_over(tape, active_, x, states.rows, states.windows, options_.units, before, owner);
    before = owner;
    if (!active_.does(owner)) continue;
    Var<T>& state = states.layer[static_cast<std::size_t>(layer)];
    state = cell(tape, decoder, layer, layer == 0 ? Input{x, input.known, input.phases} : Input{x}, state);
    x = state;
  }
  if (!output || !active_.does(before)) return;
  const Block<T> block(tape, "projection");
  block.reads(x);
  block.trains(&projection_, &projection_bias_);
  *output = block.hands_on(linear(tape, x, projection_, &projection_bias_));
}

/// Runs one time step: new states and, with `output`, the projection of the top state.
template <class T>
void Dcrnn<T>::advance(Tape<T>& tape, bool decoder, const Input& input, States& states, Var<T>* output) {
  if (options_.recompute != Recompute::step) return advance_layers(tape, decoder, input, states, output);
  const Var<T>& x = input.x;
  const auto layers = static_cast<std::size_t>(options_.layers);
  std::array<Var<T>, most_layers + 1> kept;
  for (std::size_t l = 0; l < layers; ++l) kept[l] = tape.make(x.rows(), x.cols(), options_.units, true);
  if (output) kept[layers] = tape.make(x.rows(), x.cols(), options_.features, true);
  const States before = states;
  tape.recomputed("step", std::span<const Var<T>>(kept.data(), layers + (output ? 1 : 0)),
                  [this, decoder, input, before](Tape<T>& inner, std::span<const Var<T>> outputs) {
                    States now = before;
                    Var<T> last;
                    const auto count = static_cast<std::size_t>(options_.layers);
                    advance_layers(inner, decoder, input, now, outputs.size() > count ? &last : nullptr);
                    for (std::size_t l = 0; l < count; ++l) assign(inner, outputs[l], now.layer[l]);
                    if (outputs.size() > count) assign(inner, outputs[count], last);
                  });
  for (std::size_t l = 0; l < layers; ++l) states.layer[l] = kept[l];
  if (output) *output = kept[layers];
}

/// Encodes from zero states and sends the last states to the decoder's stages.
template <class T>
void Dcrnn<T>::encode_into(Tape<T>& tape, const WindowSource<T>& source, States& states) {
  require(source.channels() == options_.channels, "a window has the channels that the model was made for");
  states = {};
  states.rows = source.rows();
  states.windows = source.windows();
  for (int layer = 0; layer < options_.layers; ++layer)
    if (active_.does(stage_of(false, layer)))
      states.layer[static_cast<std::size_t>(layer)] =
          zero_state(tape, states.rows, states.windows, options_.units);
  const bool reads = active_.does(stage_of(false, 0));
  for (Index t = 0; t < options_.inputs; ++t)
    advance(tape, false, {reads ? source.input(tape, t) : Var<T>{}, {}, embeddings_.phases(tape, source, t)},
            states, nullptr);
  for (int layer = 0; layer < options_.layers; ++layer) {
    Var<T>& state = states.layer[static_cast<std::size_t>(layer)];
    state = hand_over(tape, active_, state, states.rows, states.windows, options_.units,
                      stage_of(false, layer), stage_of(true, layer));
  }
}

template <class T>
typename Dcrnn<T>::States Dcrnn<T>::encode(Tape<T>& tape, const WindowSource<T>& source) {
  active_ = {};
  States states;
  encode_into(tape, source, states);
  return states;
}

/// Returns the level of an output that the decoder reads.
template <class T>
Var<T> Dcrnn<T>::middle_of(Tape<T>& tape, const Var<T>& output) const {
  if (options_.levels == 1) return output;
  const Var<T> x = tape.make(output.rows(), output.cols(), options_.fed(), true);
  assign(tape, x, slice_channels(output, options_.middle * options_.fed(), options_.fed()));
  return x;
}

/// Computes output step `step` of one source.
template <class T>
void Dcrnn<T>::decode(Tape<T>& tape, const WindowSource<T>& source, std::size_t step, States& states,
                      std::span<Var<T>> outputs) {
  const int first = stage_of(true, 0), last = stage_of(true, options_.layers - 1);
  Var<T> x;
  if (step > 0 && !source.feeds_truth(static_cast<Index>(step) - 1))
    x = hand_over(tape, active_, active_.does(last) ? middle_of(tape, outputs[step - 1]) : Var<T>{},
                  states.rows, states.windows, options_.fed(), last, first);
  else if (active_.does(first))
    x = step > 0 ? source.truth(tape, static_cast<Index>(step) - 1)
                 : zero_state(tape, states.rows, states.windows, options_.fed());
  const bool knows = options_.known > 0 && active_.does(first);
  const auto h = static_cast<Index>(step);
  advance(
      tape, true,
      {x, knows ? source.known(tape, h) : Var<T>{}, embeddings_.phases(tape, source, options_.inputs + h)},
      states, &outputs[step]);
}

// If outputs return to the decoder's first layer from another stage, micro-batches take turns at every step.
// One micro-batch travels while another one is computed.
template <class T>
void Dcrnn<T>::predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                       std::span<Var<T>> outputs) {
  active_ = tape.recording() ? options_.pipeline : Pipeline{};
  const std::size_t horizons = sources.empty() ? 0 : outputs.size() / sources.size();
  const auto of = [&](std::size_t k) { return outputs.subspan(k * horizons, horizons); };
  states_.resize(sources.size());
  const bool in_turns = stage_of(true, 0) != stage_of(true, options_.layers - 1);
  for (std::size_t k = 0; k < sources.size(); ++k) {
    require(sources[k]->features() == options_.features,
            "a window has the features that the model was made for");
    require(sources[k]->known_channels() == options_.known, "a window knows ahead what the model reads");
    encode_into(tape, *sources[k], states_[k]);
    for (std::size_t h = 0; h < horizons && !in_turns; ++h) decode(tape, *sources[k], h, states_[k], of(k));
  }
  for (std::size_t h = 0; h < horizons && in_turns; ++h)
    for (std::size_t k = 0; k < sources.size(); ++k) decode(tape, *sources[k], h, states_[k], of(k));
}

template class Dcrnn<float>;
template class Dcrnn<double>;

}  // namespace rossby
