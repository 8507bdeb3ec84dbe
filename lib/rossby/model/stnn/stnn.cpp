#include "rossby/model/stnn/stnn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/relate.hpp"
#include "rossby/autograd/table_loss.hpp"
#include "rossby/autograd/time_halo.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/kernels/embed.hpp"

namespace rossby {
namespace {

/// Returns a batch's steps as rows of the series.
template <class T>
std::span<const Index> series_steps(Tape<T>& tape, const Batch& batch, const Series& series) {
  const auto places = tape.arena().template take<Index>(std::ssize(batch.times));
  for (std::size_t q = 0; q < places.size(); ++q) places[q] = batch.times[q] - series.first;
  return places;
}

/// Returns the targets x at a batch's steps or pairs, packed (rows, B, m).
template <class T>
NodeView<const float> gather_targets(Tape<T>& tape, const Batch& batch, const Series& series) {
  const Index m = series.features;
  const auto count = static_cast<Index>(batch.times.size());
  Device* device = tape.exec().device;
  const float* table = device ? device->on_device(series.values.span()) : series.values.data();
  const auto values = tape.memory().template take<float>((batch.pairs ? 1 : series.rows) * count * m);
  const std::span<const Index> places = series_steps(tape, batch, series);
  if (batch.pairs) {
    const NodeView<float> out(values.data(), count, 1, m);
    embed_pairs_forward<float>(tape.exec(), out, table, series.steps, series.rows, places,
                               std::span<const Index>(batch.rows));
    return out;
  }
  const NodeView<float> out(values.data(), series.rows, count, m);
  embed_columns_forward<float>(tape.exec(), out, table, series.steps, places);
  return out;
}

/// Returns 1 / count; 0 for an empty batch.
double inverse(double count) {
  return count > 0 ? 1.0 / count : 0.0;
}

}  // namespace

template <class T>
Stnn<T>::Stnn(const StnnOptions& options, std::unique_ptr<Relations<T>> relations,
              std::vector<GlobalRow> rows, RowLink* link)
    : options_(options), relations_(std::move(relations)), rows_(std::move(rows)), link_(link) {
  const auto n = static_cast<Index>(rows_.size());
  require(n == relations_->bank().rows, "the relations must have the model's rows");
  if (!options.learned_decoder && options.latent != options.features)
    user_error(
        "model.decoder = \"identity\" needs as many latents as features, but model.latent is {} and the "
        "series has {} features. Set model.latent to the number of features",
        options.latent, options.features);
  const auto own = [&](auto& slot, std::string name, Placement placement, std::vector<Index> shape) {
    slot = std::make_unique<Parameter<T>>(std::move(name), placement, std::move(shape));
    all_.push_back(slot.get());
  };
  if (options_.held.empty()) options_.held = {0, options.steps};
  const StepRange& held = options_.held;
  require(held.first >= 0 && held.last <= options.steps, "a group's steps are steps that have latents");
  all_steps_.resize(static_cast<std::size_t>(held.size()));
  std::iota(all_steps_.begin(), all_steps_.end(), held.first);
  own(factors_, "factors", Placement::rows, {held.size(), n, options.latent});
  if (held.size() < options.steps) {
    factors_->outer_first = held.first;
    factors_->outer_all = options.steps;
  }
  if (options.learned_decoder)
    own(decoder_, "decoder_weight", Placement::replicated, {options.features, options.latent});
  Index in = (1 + relations_->bank().relations()) * options.latent;
  for (int layer = 0; layer < options.layers; ++layer) {
    const Index out = layer + 1 == options.layers ? options.latent : options.hidden;
    layer_names_.push_back(fmt::format("dynamics{}", layer));
    own(weights_.emplace_back(), fmt::format("dynamics{}_weight", layer), Placement::replicated, {out, in});
    own(biases_.emplace_back(), fmt::format("dynamics{}_bias", layer), Placement::replicated, {out});
    in = out;
  }
  for (const auto& parameter : relations_->parameters()) all_.push_back(parameter.get());
}

template <class T>
Parameter<T>& Stnn<T>::parameter(std::string_view name) const {
  for (Parameter<T>* parameter : all_)
    if (parameter->name == name) return *parameter;
  bug(fmt::format("the model has no parameter '{}'", name));
}

template <class T>
std::span<const Index> Stnn<T>::held_places(std::span<const Index> times) {
  places_.assign(times.begin(), times.end());
  for (Index& t : places_) t -= options_.held.first;
  return places_;
}

template <class T>
Var<T> Stnn<T>::embed(Tape<T>& tape, const Batch& batch, std::span<const Index> times) {
  const std::span<const Index> places = held_places(times);
  const Block<T> block(tape, "latents");
  block.trains(factors_.get());
  return block.hands_on(batch.pairs ? embed_pairs(tape, *factors_, places, std::span<const Index>(batch.rows))
                                    : embed_columns(tape, *factors_, places));
}

/// Returns the latents of sources_. Another group may hold the first one.
template <class T>
Var<T> Stnn<T>::embed_sources(Tape<T>& tape, const Batch& batch) {
  const std::span<const Index> sources(sources_);
  if (!batch.borrows) return embed(tape, batch, sources);
  require(link_ && !sources.empty() && sources.front() == options_.held.first - 1,
          "the borrowed step is the one before the group's");
  const Var<T> first =
      borrow_row<T>(tape, static_cast<Index>(rows_.size()), options_.latent, *link_, options_.group - 1);
  return join_columns(tape, first, embed(tape, batch, sources.subspan(1)));
}

template <class T>
Var<T> Stnn<T>::drop_z(Tape<T>& tape, const Var<T>& z, const Batch& batch, std::span<const Index> times,
                       Index step, std::uint64_t use) {
  if (options_.dropout_z == 0) return z;
  const Random random = Random(seed_, "dropout").at(static_cast<std::uint64_t>(step)).at(use);
  row_keys_.clear();
  col_keys_.clear();
  if (batch.pairs) {
    const Index n = relations_->bank().nodes;
    for (std::size_t q = 0; q < times.size(); ++q)
      row_keys_.push_back(times[q] * n + rows_[static_cast<std::size_t>(batch.rows[q])].value);
    col_keys_.push_back(0);
  } else {
    for (const GlobalRow row : rows_) row_keys_.push_back(row.value);
    col_keys_.assign(times.begin(), times.end());
  }
  const Block<T> block(tape, "dropout");
  block.reads(z);
  return block.hands_on(dropout(tape, z, options_.dropout_z, random, std::span<const Index>(row_keys_),
                                std::span<const Index>(col_keys_)));
}

template <class T>
Var<T> Stnn<T>::decode(Tape<T>& tape, const Var<T>& z) {
  if (!decoder_) return z;
  const Block<T> block(tape, "decoder");
  block.reads(z);
  block.trains(decoder_.get());
  return block.hands_on(linear<T>(tape, z, *decoder_, nullptr));
}

/// Computes the layers of the dynamics that follow the first one, without the outer activation.
template <class T>
Var<T> Stnn<T>::finish_layers(Tape<T>& tape, Var<T> h, const Random* dropout_random,
                              std::span<const Index> row_keys, std::span<const Index> col_keys) {
  for (std::size_t layer = 1; layer < weights_.size(); ++layer) {
    const Block<T> block(tape, layer_names_[layer]);
    block.reads(h);
    block.trains(weights_[layer].get(), biases_[layer].get());
    h = relu(tape, h);
    if (dropout_random && options_.dropout_dynamics > 0)
      h = dropout(tape, h, options_.dropout_dynamics, dropout_random->at(layer), row_keys, col_keys);
    h = block.hands_on(linear(tape, h, *weights_[layer], biases_[layer].get()));
  }
  return h;
}

template <class T>
Var<T> Stnn<T>::activate(Tape<T>& tape, const Var<T>& h) {
  if (options_.activation != LatentActivation::tanh) return h;
  const Block<T> block(tape, "activation");
  block.reads(h);
  return block.hands_on(rossby::tanh(tape, h));
}

template <class T>
Var<T> Stnn<T>::advance(Tape<T>& tape, const Var<T>& z) {
  return activate(tape, finish_layers(tape, relate(tape, z), nullptr, {}, {}));
}

/// The layer on the context: relations and the first dense layer.
template <class T>
Var<T> Stnn<T>::relate(Tape<T>& tape, const Var<T>& z) {
  const Block<T> block(tape, layer_names_[0]);
  block.reads(z);
  train_relations(block);
  return block.hands_on(relate_linear(tape, relations_->bank(), z, *weights_[0], biases_[0].get()));
}

template <class T>
void Stnn<T>::train_relations(const Block<T>& block) const {
  block.trains(weights_[0].get(), biases_[0].get());
  for (const auto& parameter : relations_->parameters()) block.trains(parameter.get());
}

/// Returns the dynamics of the sources, without the activation.
template <class T>
Var<T> Stnn<T>::predicted(Tape<T>& tape, const Batch& batch, std::span<const Index> sources, const Var<T>& z,
                          Index step) {
  const Random random = Random(seed_, "dropout").at(static_cast<std::uint64_t>(step)).at(2);
  if (!batch.pairs) {
    const Var<T> h = relate(tape, z);
    row_keys_.clear();
    if (options_.dropout_dynamics > 0)
      for (const GlobalRow row : rows_) row_keys_.push_back(row.value);
    return finish_layers(tape, h, &random, row_keys_, sources);
  }
  samples_.clear();
  for (std::size_t q = 0; q < sources.size(); ++q) samples_.push_back({batch.rows[q], sources[q]});
  Var<T> table = whole_table(tape, *factors_);
  if (options_.dropout_z > 0) {
    const std::span<const Index> all(all_steps_);
    table = drop_z(tape, embed_columns(tape, *factors_, all), Batch{}, all, step, 1);
  }
  Var<T> h;
  {
    const Block<T> block(tape, layer_names_[0]);
    train_relations(block);
    h = block.hands_on(
        relate_linear_sampled(tape, relations_->bank(), table, samples_, *weights_[0], biases_[0].get()));
  }
  row_keys_.clear();
  for (std::size_t q = 0; q < sources.size(); ++q)
    row_keys_.push_back(sources[q] * relations_->bank().nodes +
                        rows_[static_cast<std::size_t>(batch.rows[q])].value);
  col_keys_.assign(1, 0);
  return finish_layers(tape, h, &random, row_keys_, col_keys_);
}

template <class T>
void Stnn<T>::decoder_loss(Tape<T>& tape, const Batch& batch, const Var<T>& z, const Series& series,
                           Losses& losses) {
  const double scale = inverse(batch.observed);
  const Var<T> decoded = decode(tape, z);
  const Block<T> block(tape, "decoder_loss");
  block.reads(decoded);
  masked_squared_error(tape, decoded, gather_targets(tape, batch, series), scale,
                       losses.add("decoder", scale));
}

/// True if a pass uses the latents at its steps only for its loss. One pass over memory then reads them,
/// computes the loss and adds their gradients.
template <class T>
bool Stnn<T>::in_one_pass(const Tape<T>& tape, const Batch& batch) const {
  const bool decoder = batch.pass == Pass::decoder;
  if (batch.pairs ||
      !(decoder ? options_.dropout_z == 0 : batch.pass == Pass::dynamics && options_.l2_z == 0))
    return false;
  const Index d = options_.latent, m = options_.features;
  return decoder ? table_losses_fit(tape, std::max(d, m), d * m)
                 : table_losses_fit(tape, std::ssize(batch.times) * d);
}

/// Registers the latents at a batch's steps for losses in one pass. Returns their places.
template <class T>
std::span<const Index> Stnn<T>::rows_in_place(Tape<T>& tape, const Batch& batch) {
  const Block<T> block(tape, "latents");
  block.trains(factors_.get());
  block.hands_on_rows(*factors_, std::ssize(batch.times));
  return held_places(batch.times);
}

template <class T>
void Stnn<T>::decoder_loss_in_one_pass(Tape<T>& tape, const Batch& batch, const Series& series,
                                       Losses& losses) {
  const double scale = inverse(batch.observed);
  const std::span<const Index> places = rows_in_place(tape, batch);
  const Block<T> block(tape, "decoder_loss");
  block.reads_rows(*factors_, std::ssize(places));
  block.trains(decoder_.get());
  table_decoded_error(tape, *factors_, places, decoder_.get(),
                      {series.values.data(), series.steps, series_steps(tape, batch, series)}, scale,
                      losses.add("decoder", scale));
}

template <class T>
void Stnn<T>::relation_loss(Tape<T>& tape, Losses& losses) {
  const RelationBank<T>& bank = relations_->bank();
  bool learned = false;
  for (const auto& term : bank.terms) learned = learned || term.weight != nullptr;
  if (!learned || options_.l1_rel == 0) return;
  const double n = static_cast<double>(bank.nodes);
  const double scale = options_.l1_rel / (n * n * static_cast<double>(bank.relations() + 1));
  double* sum = losses.add("l1_rel", scale);
  // Gradients are summed over time groups, so one group adds the penalty's. Updates in backward are the same
  // in every group.
  const bool counts = options_.group == 0;
  double counted_elsewhere = 0;
  if (counts) *sum += static_cast<double>(bank.rows);  // the ones of the identity
  for (const auto& term : bank.terms)
    if (term.weight) {
      if (counts || term.weight->sink) clamp_l1(tape, *term.weight, scale, counts ? sum : &counted_elsewhere);
    } else if (counts) {
      for (const T weight : term.fixed) *sum += std::abs(static_cast<double>(weight));
    }
}

template <class T>
void Stnn<T>::dynamics_loss(Tape<T>& tape, const Batch& batch, std::span<const Index> times,
                            const Var<T>* target, Index step, Losses& losses) {
  sources_.assign(times.begin(), times.end());
  for (Index& t : sources_) --t;
  const double mean = inverse(batch.targets * static_cast<double>(options_.latent));
  // Pairs read the table in place. They need their own source latents only for the l2 term.
  const bool needs_source = !batch.pairs || options_.l2_z > 0;
  Var<T> source;
  if (needs_source) source = embed_sources(tape, batch);
  const Var<T> dropped = batch.pairs ? Var<T>{} : drop_z(tape, source, batch, sources_, step, 1);
  const Var<T> h = predicted(tape, batch, sources_, dropped, step);
  const double scale = options_.lambda * mean;
  if (!target) {
    const std::span<const Index> places = rows_in_place(tape, batch);
    const Block<T> block(tape, "dynamics_loss");
    block.reads_rows(*factors_, std::ssize(places));
    block.reads(h);
    table_difference(tape, *factors_, places, h, options_.activation == LatentActivation::tanh, scale,
                     losses.add("mse", scale));
    return relation_loss(tape, losses);
  }
  const Var<T> prediction = activate(tape, h);
  const Block<T> block(tape, "dynamics_loss");
  block.reads(*target);
  block.reads(prediction);
  if (options_.l2_z > 0) block.reads(source);
  squared_difference(tape, *target, prediction, scale, losses.add("mse", scale));
  if (options_.l2_z > 0)
    squared_difference(tape, *target, source, options_.l2_z * mean, losses.add("l2_z", options_.l2_z * mean));
  relation_loss(tape, losses);
}

template <class T>
void Stnn<T>::losses(Tape<T>& tape, const Batch& batch, const Series& series, Index step, Losses& losses) {
  require(series.rows == static_cast<Index>(rows_.size()), "the series must have the model's rows");
  const std::span<const Index> times(batch.times);
  if (batch.lends) {
    require(link_, "latents are lent to another group");
    lend_row(tape, *factors_, options_.held.size() - 1, *link_, options_.group + 1);
  }
  if (in_one_pass(tape, batch))
    return batch.pass == Pass::decoder ? decoder_loss_in_one_pass(tape, batch, series, losses)
                                       : dynamics_loss(tape, batch, times, nullptr, step, losses);
  const Var<T> z = embed(tape, batch, times);
  if (batch.pass != Pass::dynamics)
    decoder_loss(tape, batch, drop_z(tape, z, batch, times, step, 0), series, losses);
  if (batch.pass == Pass::decoder) return;
  if (batch.pass == Pass::dynamics) return dynamics_loss(tape, batch, times, &z, step, losses);
  // A joint slab may hold steps without a predecessor in training; they have no dynamics loss.
  if (batch.predicted_times.size() == times.size() && batch.targets > 0)
    return dynamics_loss(tape, batch, times, &z, step, losses);
  // If other groups have such steps, this one takes part without columns.
  targets_ = batch.predicted_times;
  if (batch.targets <= 0) return;
  const Var<T> of_targets = embed(tape, batch, targets_);
  dynamics_loss(tape, batch, targets_, &of_targets, step, losses);
}

template class Stnn<float>;
template class Stnn<double>;

}  // namespace rossby
