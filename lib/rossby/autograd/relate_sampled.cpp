#include <algorithm>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/relate.hpp"
#include "rossby/autograd/relate_terms.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/sampled.hpp"

namespace rossby {
namespace {

using detail::WeightBlock;
template <class T>
using Kind = typename RelationTerm<T>::Kind;

/// One term of the sampled layer. `context` is (samples, r·d). A low-rank term adds its (T, k, d) sums.
template <class T>
struct SampledTerm {
  const RelationTerm<T>* term;
  WeightBlock<T> a;
  MatrixView<T> context;
  T* dm;  // gradient of M, s or U
  T* dv;
  std::span<T> sums;    // (T, k, d) = Vᵀ z / n
  std::span<T> d_sums;  // scratch for backward
};

template <class T>
struct SampledLayer {
  const RelationBank<T>* bank;
  std::span<const Sample> samples;
  std::span<SampledTerm<T>> terms;
  Var<T> z;
  NodeView<T> ghost;
  NodeView<T> d_ghost;
  std::span<T> scratch;
  MatrixView<T> d_context;       // the widest term's
  std::span<const Index> order;  // sample indices, sorted by column

  [[nodiscard]] SampledWork<T> work() const { return {order, scratch}; }

  [[nodiscard]] NodeView<const T> all() const {
    return ghost.rows > 0 ? NodeView<const T>(ghost) : NodeView<const T>(z.value);
  }
  [[nodiscard]] NodeView<T> d_all() const { return ghost.rows > 0 ? d_ghost : z.gradient; }

  void forward(const Exec& exec, SampledTerm<T>& item) const;
  void backward(const Exec& exec, const SampledTerm<T>& item, MatrixView<const T> delta) const;
  void low_rank_forward(const Exec& exec, SampledTerm<T>& item) const;
  void low_rank_backward(const Exec& exec, const SampledTerm<T>& item, MatrixView<const T> g) const;
};

/// Column t of node data as a matrix (rows, d).
template <class T>
MatrixView<T> step(NodeView<T> v, Index t) {
  return {v.data + t * v.col_stride, v.rows, v.channels, v.row_stride};
}

template <class T>
void SampledLayer<T>::low_rank_forward(const Exec& exec, SampledTerm<T>& item) const {
  const Index k = item.term->u->shape.back();
  const Index d = z.channels();
  const MatrixView<const T> u(item.term->u->data(exec.device), bank->rows, k);
  const MatrixView<const T> v(item.term->v->data(exec.device), bank->rows, k);
  for (Index t = 0; t < z.cols(); ++t)
    linear_backward_weight<T>(exec, MatrixView<T>(item.sums.data() + t * k * d, k, d), v,
                              step(NodeView<const T>(z.value), t), scratch);
  bank->reducer->sum(item.sums);
  detail::scale_all(exec, item.sums, T(1) / static_cast<T>(bank->nodes));
  sampled_low_rank_forward<T>(exec, item.context, u, item.sums, samples);
}

template <class T>
void SampledLayer<T>::low_rank_backward(const Exec& exec, const SampledTerm<T>& item,
                                        MatrixView<const T> g) const {
  const Index k = item.term->u->shape.back();
  const Index d = z.channels();
  const MatrixView<const T> u(item.term->u->data(exec.device), bank->rows, k);
  const MatrixView<const T> v(item.term->v->data(exec.device), bank->rows, k);
  clear(exec, item.d_sums.data(), std::ssize(item.d_sums));
  sampled_low_rank_backward<T>(exec, item.d_sums, item.dm, u, item.sums, samples, g);
  bank->reducer->sum(item.d_sums);
  detail::scale_all(exec, item.d_sums, T(1) / static_cast<T>(bank->nodes));
  for (Index t = 0; t < z.cols(); ++t) {
    const MatrixView<const T> ds(item.d_sums.data() + t * k * d, k, d);
    if (item.dv)
      linear_forward<T>(exec, MatrixView<T>(item.dv, bank->rows, k), step(NodeView<const T>(z.value), t), ds,
                        nullptr, true);
    if (z.tracked()) linear_backward_input<T>(exec, step(z.gradient, t), v, ds);
  }
}

template <class T>
void SampledLayer<T>::forward(const Exec& exec, SampledTerm<T>& item) const {
  const RelationTerm<T>& term = *item.term;
  switch (term.kind) {
    case Kind<T>::sparse:
      return sampled_sparse_forward<T>(exec, item.context, detail::sparse_relate(exec, term, item.a.value),
                                       samples, z.value, ghost);
    case Kind<T>::dense:
      return sampled_dense_forward<T>(
          exec, item.context, detail::dense_relate(exec, *bank, term, item.a.value), samples, all(), work());
    case Kind<T>::low_rank:
      return low_rank_forward(exec, item);
    case Kind<T>::self:
      return sampled_self_forward<T>(exec, item.context, term.weights(exec.device), samples, z.value);
  }
}

template <class T>
void SampledLayer<T>::backward(const Exec& exec, const SampledTerm<T>& item,
                               MatrixView<const T> delta) const {
  const RelationTerm<T>& term = *item.term;
  if (item.a.gradient.data) linear_backward_weight<T>(exec, item.a.gradient, delta, item.context, scratch);
  const MatrixView<T> g(d_context.data, delta.rows, item.context.cols);
  clear(exec, g.data, g.size());
  linear_backward_input<T>(exec, g, delta, item.a.value);
  switch (term.kind) {
    case Kind<T>::sparse:
      return sampled_sparse_backward<T>(exec, z.gradient, d_ghost, item.dm,
                                        detail::sparse_relate(exec, term, item.a.value), samples, g, z.value,
                                        ghost);
    case Kind<T>::dense:
      return sampled_dense_backward<T>(exec, d_all(), item.dm,
                                       detail::dense_relate(exec, *bank, term, item.a.value), samples, g,
                                       all(), work());
    case Kind<T>::low_rank:
      return low_rank_backward(exec, item, g);
    case Kind<T>::self:
      return sampled_self_backward<T>(exec, z.gradient, item.dm, term.weights(exec.device), samples, g,
                                      z.value);
  }
}

/// For a dense relation, only the samples' rows have a gradient.
template <class T>
T* gradient_of(Tape<T>& tape, const RelationBank<T>& bank, const RelationTerm<T>& term,
               std::span<const Sample> samples) {
  if (!tape.recording() || !term.weight) return nullptr;
  if (term.kind != Kind<T>::dense) return term.weight->gradient_target();
  auto rows = tape.arena().template take<Index>(std::ssize(samples) * term.relations);
  auto next = rows.begin();
  for (int k = 0; k < term.relations; ++k)
    for (const Sample& sample : samples) *next++ = k * bank.rows + sample.row;
  return term.weight->gradient_target(rows);
}

template <class T>
std::span<SampledTerm<T>> make_terms(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                                     std::span<const Sample> kept, Parameter<T>& weight) {
  Arena& arena = tape.memory();
  const Index d = z.channels(), samples = std::ssize(kept);
  require(weight.shape.size() == 2 && weight.shape[1] == (1 + bank.relations()) * d,
          "relate_linear_sampled: weight must be (w, (1 + relations)·d)");
  auto terms = tape.arena().template take<SampledTerm<T>>(static_cast<Index>(bank.terms.size()));
  T* target = tape.recording() ? weight.gradient_target() : nullptr;
  int first = 1;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const RelationTerm<T>& term = bank.terms[i];
    const Index width = term.relations * d;
    SampledTerm<T>* item =
        new (&terms[i]) SampledTerm<T>{&term,
                                       {tape.exec(), weight, target, d, first, term.relations},
                                       {arena.template take<T>(samples * width).data(), samples, width},
                                       gradient_of(tape, bank, term, kept),
                                       nullptr,
                                       {},
                                       {}};
    if (term.kind == Kind<T>::low_rank) {
      if (tape.recording()) {
        item->dm = term.u->gradient_target();
        item->dv = term.v->gradient_target();
      }
      const Index sums = z.cols() * term.u->shape.back() * d;
      item->sums = arena.template take_zeroed<T>(sums);
      item->d_sums = arena.template take<T>(sums);
    }
    first += term.relations;
  }
  return terms;
}

template <class T>
Index scratch_size(const Exec& exec, const RelationBank<T>& bank, const Var<T>& z, Index samples, Index w) {
  Index size = 0;
  for (const auto& term : bank.terms) {
    size = std::max(size, linear_scratch_size(samples, w, term.relations * z.channels()));
    if (term.kind == Kind<T>::low_rank)
      size = std::max(size, linear_scratch_size(bank.rows, term.u->shape.back(), z.channels()));
    if (term.kind == Kind<T>::dense)
      size = std::max(size, sampled_dense_workspace(exec, detail::dense_relate(exec, bank, term, {}),
                                                    z.channels(), samples));
  }
  return size;
}

/// Counts the entries that the samples read, times d each, and the dense layer on them. Backward computes
/// twice as much.
template <class T>
OpCost sampled_cost(const SampledLayer<T>& layer, Index w) {
  const RelationBank<T>& bank = *layer.bank;
  const Index d = layer.z.channels();
  Cost cost;
  for (const SampledTerm<T>& item : layer.terms) {
    const RelationTerm<T>& term = *item.term;
    Index entries = std::ssize(layer.samples);
    if (term.kind == Kind<T>::dense) entries *= term.relations * bank.nodes;
    if (term.kind == Kind<T>::low_rank)
      entries = (entries + bank.rows * layer.z.cols()) * term.u->shape.back();
    if (term.kind == Kind<T>::sparse) {
      entries = 0;
      const auto begin_of = [&](Index row) {
        return static_cast<Index>(term.sparse->ptr[static_cast<std::size_t>(row * term.relations)]);
      };
      for (const Sample& sample : layer.samples) entries += begin_of(sample.row + 1) - begin_of(sample.row);
    }
    cost.flops += 2.0 * static_cast<double>(entries * d + std::ssize(layer.samples) * term.relations * d * w);
    cost.bytes += static_cast<double>(entries) * ((term.kind == Kind<T>::sparse ? 4 : 0) + sizeof(T)) +
                  static_cast<double>(entries * d) * sizeof(T);
  }
  OpCost both{cost, {2 * cost.flops, 2 * cost.bytes}};
  const auto messages = [](Cost& of, const Traffic& traffic) {
    of.messages = static_cast<double>(traffic.messages);
    of.message_bytes = static_cast<double>(traffic.bytes);
  };
  const Index row_bytes = layer.z.cols() * d * static_cast<Index>(sizeof(T));
  messages(both.forward, bank.exchange->gather_cost(row_bytes));
  if (layer.z.tracked()) messages(both.backward, bank.exchange->scatter_cost(row_bytes));
  return both;
}

}  // namespace

template <class T>
Var<T> relate_linear_sampled(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                             std::span<const Sample> samples, Parameter<T>& weight, Parameter<T>* bias) {
  require(z.rows() == bank.rows, "relate_linear_sampled: z must hold the owned rows");
  const Exec& exec = tape.exec();
  Arena& arena = tape.memory();
  const Index w = weight.shape[0];
  const Index d = z.channels();
  const auto count = static_cast<Index>(samples.size());
  auto kept = tape.arena().template take<Sample>(count);
  std::copy(samples.begin(), samples.end(), kept.begin());

  const bool dense = std::any_of(bank.terms.begin(), bank.terms.end(),
                                 [](const RelationTerm<T>& term) { return term.kind == Kind<T>::dense; });
  auto order = tape.arena().template take<Index>(dense ? count : 0);
  if (dense) order_by_column(kept, order, tape.arena().template take<Index>(z.cols() + 1));

  SampledLayer<T> layer{&bank, kept, make_terms(tape, bank, z, std::span<const Sample>(kept), weight),
                        z,     {},   {},
                        {},    {},   order};
  const Index ghosts = bank.exchange->ghosts();
  layer.ghost = {arena.template take<T>(ghosts * z.cols() * d).data(), ghosts, z.cols(), d};
  bank.exchange->gather_begin(NodeView<const T>(z.value), layer.ghost);
  if (z.tracked()) layer.d_ghost = {arena.template take<T>(layer.ghost.size()).data(), ghosts, z.cols(), d};
  layer.scratch = arena.template take<T>(scratch_size(exec, bank, z, count, w));
  Index widest = 0;
  for (const auto& item : layer.terms) widest = std::max(widest, item.context.cols);
  layer.d_context = {arena.template take<T>(count * widest).data(), count, widest};

  // The samples' own latents, (samples, 1, d), for the identity block.
  Var<T> own = tape.make(count, 1, d, z.tracked());
  gather_samples<T>(exec, own.value, z.value, kept);
  const OpCost copy = costs::embed(static_cast<double>(count * d), sizeof(T));
  tape.touches(own, z);
  tape.record("gather_samples", copy.forward, copy.backward, [own, z, kept, exec] {
    if (own.tracked()) scatter_add_samples<T>(exec, z.gradient, own.gradient, kept);
  });
  Var<T> h = zeros(tape, count, 1, w, true);
  if (bias) bias_accumulate(tape, h, *bias);
  linear_accumulate(tape, h, own, weight, 0);

  bank.exchange->gather_end();
  for (SampledTerm<T>& item : layer.terms) {
    layer.forward(exec, item);
    linear_forward<T>(exec, MatrixView<T>(h.value.data, count, w), item.context, item.a.value, nullptr, true);
  }
  const OpCost cost = sampled_cost(layer, w);
  detail::touch(tape, bank, h, z, weight, bias);
  tape.record("relate_sampled", cost.forward, cost.backward, [layer, h, exec, count, w] {
    const MatrixView<const T> delta(h.gradient.data, count, w);
    if (layer.d_ghost.data) clear(exec, layer.d_ghost.data, layer.d_ghost.size());
    for (const SampledTerm<T>& item : layer.terms) layer.backward(exec, item, delta);
    if (!layer.z.tracked()) return;
    layer.bank->exchange->scatter_add_begin(NodeView<const T>(layer.d_ghost), layer.z.gradient);
    layer.bank->exchange->scatter_add_end();
  });
  return h;
}

#define ROSSBY_INSTANTIATE(T)                                                            \
  template Var<T> relate_linear_sampled(Tape<T>&, const RelationBank<T>&, const Var<T>&, \
                                        std::span<const Sample>, Parameter<T>&, Parameter<T>*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby
