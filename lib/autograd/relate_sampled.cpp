#include <algorithm>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/relate.hpp"
#include "rossby/autograd/relate_terms.hpp"
#include "rossby/kernels/clamp.hpp"

namespace rossby {
namespace {

using detail::WeightBlock;
template <class T>
using Kind = typename RelationTerm<T>::Kind;

/// One term of the sampled layer. `context` is (samples, r·d); a low-rank term adds its (T, k, d) sums.
template <class T>
struct SampledTerm {
  const RelationTerm<T>* term;
  WeightBlock<T> a;
  MatrixView<T> context;
  T* dm;  // of M, s or U
  T* dv;
  std::span<T> sums;    // (T, k, d) = Vᵀ z / n
  std::span<T> d_sums;  // backward's scratch
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
  MatrixView<T> d_context;  // the widest term's

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
  const MatrixView<const T> v(item.term->v->value.data(), bank->rows, k);
  for (Index t = 0; t < z.cols(); ++t)
    linear_backward_weight<T>(exec, MatrixView<T>(item.sums.data() + t * k * d, k, d), v,
                              step(NodeView<const T>(z.value), t), scratch);
  bank->reducer->sum(item.sums);
  for (T& sum : item.sums) sum /= static_cast<T>(bank->nodes);
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const T* u = item.term->u->value.data() + samples[s].row * k;
    const T* sums = item.sums.data() + samples[s].col * k * d;
    T* out = item.context.row(static_cast<Index>(s));
    std::fill_n(out, d, T(0));
    for (Index q = 0; q < k; ++q)
      for (Index f = 0; f < d; ++f) out[f] += u[q] * sums[q * d + f];
  }
}

template <class T>
void SampledLayer<T>::low_rank_backward(const Exec& exec, const SampledTerm<T>& item,
                                        MatrixView<const T> g) const {
  const Index k = item.term->u->shape.back();
  const Index d = z.channels();
  std::fill(item.d_sums.begin(), item.d_sums.end(), T(0));
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const T* u = item.term->u->value.data() + samples[s].row * k;
    const T* sums = item.sums.data() + samples[s].col * k * d;
    T* d_sums_t = item.d_sums.data() + samples[s].col * k * d;
    const T* gs = g.row(static_cast<Index>(s));
    for (Index q = 0; q < k; ++q)
      for (Index f = 0; f < d; ++f) {
        d_sums_t[q * d + f] += u[q] * gs[f];
        if (item.dm) item.dm[samples[s].row * k + q] += sums[q * d + f] * gs[f];
      }
  }
  bank->reducer->sum(item.d_sums);
  for (T& sum : item.d_sums) sum /= static_cast<T>(bank->nodes);
  const MatrixView<const T> v(item.term->v->value.data(), bank->rows, k);
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
      return sampled_dense_forward<T>(exec, item.context,
                                      detail::dense_relate(exec, *bank, term, item.a.value), samples, all());
    case Kind<T>::low_rank:
      return low_rank_forward(exec, item);
    case Kind<T>::self:
      for (std::size_t s = 0; s < samples.size(); ++s)
        for (Index f = 0; f < z.channels(); ++f)
          item.context.row(static_cast<Index>(s))[f] =
              effective(term.weights()[samples[s].row], true) * z.value.at(samples[s].row, samples[s].col)[f];
  }
}

template <class T>
void SampledLayer<T>::backward(const Exec& exec, const SampledTerm<T>& item,
                               MatrixView<const T> delta) const {
  const RelationTerm<T>& term = *item.term;
  if (item.a.gradient.data) linear_backward_weight<T>(exec, item.a.gradient, delta, item.context, scratch);
  const MatrixView<T> g(d_context.data, delta.rows, item.context.cols);
  std::fill_n(g.data, g.size(), T(0));
  linear_backward_input<T>(exec, g, delta, item.a.value);
  switch (term.kind) {
    case Kind<T>::sparse:
      return sampled_sparse_backward<T>(exec, z.gradient, d_ghost, item.dm,
                                        detail::sparse_relate(exec, term, item.a.value), samples, g, z.value,
                                        ghost);
    case Kind<T>::dense:
      return sampled_dense_backward<T>(
          exec, d_all(), item.dm, detail::dense_relate(exec, *bank, term, item.a.value), samples, g, all());
    case Kind<T>::low_rank:
      return low_rank_backward(exec, item, g);
    case Kind<T>::self:
      for (std::size_t s = 0; s < samples.size(); ++s) {
        const T weight = term.weights()[samples[s].row];
        const T* gs = g.row(static_cast<Index>(s));
        for (Index f = 0; f < z.channels(); ++f) {
          if (z.tracked())
            z.gradient.at(samples[s].row, samples[s].col)[f] += effective(weight, true) * gs[f];
          if (item.dm && passes_gradient(weight, true))
            item.dm[samples[s].row] += gs[f] * z.value.at(samples[s].row, samples[s].col)[f];
        }
      }
  }
}

template <class T>
std::span<SampledTerm<T>> make_terms(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z,
                                     Index samples, Parameter<T>& weight) {
  Arena& arena = tape.arena();
  const Index d = z.channels();
  require(!tape.exec().device, "batches of pairs are worked on by the host");
  require(weight.shape.size() == 2 && weight.shape[1] == (1 + bank.relations()) * d,
          "relate_linear_sampled: weight must be (w, (1 + relations)·d)");
  auto terms = arena.template take<SampledTerm<T>>(static_cast<Index>(bank.terms.size()));
  T* target = tape.recording() ? weight.gradient_target() : nullptr;
  int first = 1;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const RelationTerm<T>& term = bank.terms[i];
    const Index width = term.relations * d;
    SampledTerm<T>* item =
        new (&terms[i]) SampledTerm<T>{&term,
                                       {tape.exec(), weight, target, d, first, term.relations},
                                       {arena.template take<T>(samples * width).data(), samples, width},
                                       nullptr,
                                       nullptr,
                                       {},
                                       {}};
    if (tape.recording() && term.weight) item->dm = term.weight->gradient_target();
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
Index scratch_size(const RelationBank<T>& bank, const Var<T>& z, Index samples, Index w) {
  Index size = 0;
  for (const auto& term : bank.terms) {
    size = std::max(size, linear_scratch_size(samples, w, term.relations * z.channels()));
    if (term.kind == Kind<T>::low_rank)
      size = std::max(size, linear_scratch_size(bank.rows, term.u->shape.back(), z.channels()));
  }
  return size;
}

/// Entries that the samples read, each times d, and the dense layer on them. Backward computes twice as much.
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
  Arena& arena = tape.arena();
  const Index w = weight.shape[0];
  const Index d = z.channels();
  const auto count = static_cast<Index>(samples.size());
  auto kept = arena.template take<Sample>(count);
  std::copy(samples.begin(), samples.end(), kept.begin());

  SampledLayer<T> layer{&bank, kept, make_terms(tape, bank, z, count, weight), z, {}, {}, {}, {}};
  const Index ghosts = bank.exchange->ghosts();
  layer.ghost = {arena.template take<T>(ghosts * z.cols() * d).data(), ghosts, z.cols(), d};
  bank.exchange->gather_begin(NodeView<const T>(z.value), layer.ghost);
  if (z.tracked()) layer.d_ghost = {arena.template take<T>(layer.ghost.size()).data(), ghosts, z.cols(), d};
  layer.scratch = arena.template take<T>(scratch_size(bank, z, count, w));
  Index widest = 0;
  for (const auto& item : layer.terms) widest = std::max(widest, item.context.cols);
  layer.d_context = {arena.template take<T>(count * widest).data(), count, widest};

  // The samples' own latents, (samples, 1, d), for the identity block.
  Var<T> own = tape.make(count, 1, d, z.tracked());
  for (Index s = 0; s < count; ++s) std::copy_n(z.value.at(kept[s].row, kept[s].col), d, own.value.row(s));
  const OpCost copy = costs::embed(static_cast<double>(count * d), sizeof(T));
  tape.record("gather_samples", copy.forward, copy.backward, [own, z, kept, d] {
    if (!own.tracked()) return;
    for (std::size_t s = 0; s < kept.size(); ++s) {
      T* out = z.gradient.at(kept[s].row, kept[s].col);
      const T* g = own.gradient.row(static_cast<Index>(s));
      for (Index f = 0; f < d; ++f) out[f] += g[f];
    }
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
  tape.record("relate_sampled", cost.forward, cost.backward, [layer, h, exec, count, w] {
    const MatrixView<const T> delta(h.gradient.data, count, w);
    if (layer.d_ghost.data) std::fill_n(layer.d_ghost.data, layer.d_ghost.size(), T(0));
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
