#include "rossby/model/tgcn/tgcn.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/elementwise.hpp"

namespace rossby {
namespace {

template <class T>
void glorot(Parameter<T>& weight, std::uint64_t seed) {
  const Random random(seed, "init." + weight.name);
  const double bound = std::sqrt(6.0 / static_cast<double>(weight.shape[0] + weight.shape[1]));
  for (Index i = 0; i < weight.size(); ++i)
    weight.value[i] = static_cast<T>(random.uniform(static_cast<std::uint64_t>(i), -bound, bound));
}

}  // namespace

template <class T>
Tgcn<T>::Tgcn(const TgcnOptions& options, Diffusion<T> graph, const EmbeddingShape& embeddings,
              std::span<const Index> rows)
    : options_(options),
      graph_(std::move(graph)),
      embeddings_(embeddings, rows),
      input_("input_weight", Placement::replicated, {3 * options.units, options.channels}),
      gates_("gates_weight", Placement::replicated, {2 * options.units, options.units}),
      candidate_("candidate_weight", Placement::replicated, {options.units, options.units}),
      bias_("bias", Placement::replicated, {3 * options.units}),
      projection_("projection_weight", Placement::replicated,
                  {options.outputs * options.features, options.units}),
      projection_bias_("projection_bias", Placement::replicated, {options.outputs * options.features}),
      embedding_("embedding_weight", Placement::replicated, {3 * options.units, embeddings_.width()}),
      all_{&input_, &gates_, &candidate_, &bias_, &projection_, &projection_bias_} {
  require(graph_.block && graph_.block->relations == 1, "a T-GCN has one support");
  if (embeddings_.width() == 0) return;
  all_.push_back(&embedding_);
  embeddings_.append_to(all_);
}

template <class T>
void Tgcn<T>::start(std::uint64_t seed) {
  for (Parameter<T>* weight : {&input_, &gates_, &candidate_, &projection_, &embedding_})
    glorot(*weight, seed);
  embeddings_.start(seed);
  std::fill(bias_.value.begin(), bias_.value.end(), T{0});
  std::fill_n(bias_.value.data(), 2 * options_.units, T{1});
  std::fill(projection_bias_.value.begin(), projection_bias_.value.end(), T{0});
}

template <class T>
Var<T> Tgcn<T>::cell(Tape<T>& tape, const Var<T>& x, const Var<T>& h,
                     const typename Embeddings<T>::Phases& phases) {
  const Index units = options_.units;
  const Var<T> a = linear(tape, propagate(tape, graph_, x), input_, &bias_);
  embeddings_.add_product(tape, a, embedding_, phases);
  linear_accumulate(tape, slice_channels(a, 0, 2 * units), propagate(tape, graph_, h), gates_, 0);
  const Var<T> reset = gru_reset(tape, slice_channels(a, 0, units), h);
  linear_accumulate(tape, slice_channels(a, 2 * units, units), propagate(tape, graph_, reset), candidate_, 0);
  return gru_output(tape, slice_channels(a, units, units), slice_channels(a, 2 * units, units), h);
}

template <class T>
void Tgcn<T>::predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                      std::span<Var<T>> outputs) {
  for (std::size_t k = 0; k < sources.size(); ++k)
    predict_one(tape, *sources[k],
                outputs.subspan(k * outputs.size() / sources.size(), outputs.size() / sources.size()));
}

template <class T>
void Tgcn<T>::predict_one(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs) {
  require(source.channels() == options_.channels && source.features() == options_.features,
          "a window has the channels and features that the model was made for");
  require(static_cast<Index>(outputs.size()) <= options_.outputs, "as many output steps as the model has");
  Var<T> h = tape.make(source.rows(), source.windows(), options_.units, false);
  clear(tape.exec(), h.value.data, h.value.size());
  for (Index t = 0; t < options_.inputs; ++t) {
    const Var<T> x = source.input(tape, t);
    const auto phases = embeddings_.phases(tape, source, t);
    const Block<T> block(tape, "cell");
    block.reads(x);
    block.reads(h);
    block.trains(&input_, &gates_, &candidate_, &bias_);
    if (embeddings_.width() > 0) block.trains(&embedding_);
    embeddings_.trained_in(block);
    if (options_.recompute == Recompute::none && tape.recording()) {
      h = block.hands_on(cell(tape, x, h, phases));
      continue;
    }
    const Var<T> next = tape.make(h.rows(), h.cols(), h.channels(), true);
    tape.recomputed("cell", std::span<const Var<T>>(&next, 1),
                    [this, x, h, phases](Tape<T>& inner, std::span<const Var<T>> out) {
                      assign(inner, out[0], cell(inner, x, h, phases));
                    });
    h = block.hands_on(next);
  }
  const Block<T> block(tape, "projection");
  block.reads(h);
  block.trains(&projection_, &projection_bias_);
  const Var<T> all = block.hands_on(linear(tape, h, projection_, &projection_bias_));
  for (std::size_t k = 0; k < outputs.size(); ++k)
    outputs[k] = slice_channels(all, static_cast<Index>(k) * options_.features, options_.features);
}

template class Tgcn<float>;
template class Tgcn<double>;

}  // namespace rossby
