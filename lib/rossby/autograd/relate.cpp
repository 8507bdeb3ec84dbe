#include "rossby/autograd/relate.hpp"

#include <algorithm>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/relate_chunks.hpp"
#include "rossby/autograd/relate_terms.hpp"
#include "rossby/kernels/elementwise.hpp"

namespace rossby {
namespace {

using detail::LowRank;
using detail::SelfTerm;
using detail::WeightBlock;

template <class T>
using Kind = typename RelationTerm<T>::Kind;

/// One term in a layer: its weight block and, by kind, the state for backward.
template <class T>
struct LayerTerm {
  const RelationTerm<T>* term;
  WeightBlock<T> a;
  T* dm = nullptr;
  DenseGradient<T> dense;  // dense terms: gradient, and W z in `context`
  T* context = nullptr;
  LowRank<T> low_rank;
  SelfTerm<T> self;

  [[nodiscard]] DenseRelate<T> dense_relate(const Exec& exec, const RelationBank<T>& bank) const {
    DenseRelate<T> relate = detail::dense_relate(exec, bank, *term, a.value);
    relate.context = context;
    if (dense.update) relate.weight_sum = &dense.update->weight_sum;
    return relate;
  }
};

template <class T>
struct Layer {
  Tape<T>* tape;
  const RelationBank<T>* bank;
  std::span<LayerTerm<T>> terms;
  // The first sparse term's sweep adds bias and identity. Without a sparse term, they are separate ops.
  const LayerTerm<T>* carrier = nullptr;
  IdentityBlock<T> identity;
  IdentityGradient<T> d_identity;
  Var<T> z;
  NodeView<T> ghost;    // (ghosts, B, d)
  NodeView<T> d_ghost;  // data null: z has no gradient
  std::span<T> workspace;

  /// Input of dense terms, all positions: the gathered rows, or on one rank the owned ones.
  [[nodiscard]] NodeView<const T> all(NodeView<const T> owned) const {
    return ghost.rows > 0 ? ghost : owned;
  }

  void backward(const Exec& exec, NodeView<const T> delta) const;
};

template <class T>
std::span<LayerTerm<T>> make_terms(Tape<T>& tape, const RelationBank<T>& bank, Parameter<T>& weight,
                                   Index d) {
  require(weight.shape.size() == 2 && weight.shape[1] == (1 + bank.relations()) * d,
          "relate_linear: weight must be (w, (1 + relations)·d)");
  auto terms = tape.arena().template take<LayerTerm<T>>(static_cast<Index>(bank.terms.size()));
  T* target = tape.recording() ? weight.gradient_target() : nullptr;
  const Exec& exec = tape.exec();
  int first = 1;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const RelationTerm<T>& term = bank.terms[i];
    new (&terms[i])
        LayerTerm<T>{&term,
                     WeightBlock<T>(exec, weight, target, d, first, term.relations),
                     nullptr,
                     {},
                     nullptr,
                     {{}, {}, {}, {}, {exec, weight, target, d, first, 1}, nullptr, T(0), {}, {}, {}, {}, {}},
                     {nullptr, nullptr, {exec, weight, target, d, first, 1}, {}, {}, {}}};
    if (term.weight && tape.recording()) {
      if (term.kind == Kind<T>::sparse) terms[i].dm = term.weight->gradient_target();
      if (term.kind == Kind<T>::dense) terms[i].dense = term.weight->dense_target();
    }
    first += term.relations;
  }
  return terms;
}

/// Keeps W z of a dense term for backward, and claims the term's update for this layer.
template <class T>
void prepare_dense(Tape<T>& tape, LayerTerm<T>& item, Index context) {
  if (item.term->kind != Kind<T>::dense) return;
  item.context = tape.memory().template take<T>(item.term->relations * context).data();
  if (!item.dense.update) return;
  require(!item.dense.update->recorded, "a relation that is updated in backward serves one layer a step");
  item.dense.update->recorded = true;
}

/// Traffic of a bank's streams so far.
template <class T>
Moved moved_by(const RelationBank<T>& bank) {
  Moved sum;
  for (const auto& term : bank.terms)
    if (const ChunkStream* stream = term.weight ? term.weight->stream.get() : nullptr) {
      sum.brought += stream->statistics().read_bytes;
      sum.home += stream->statistics().written_bytes;
    }
  return sum;
}

/// Reports the streams' traffic since `before` to the tape.
template <class T>
void tell_moved(Tape<T>& tape, const RelationBank<T>& bank, const Moved& before) {
  const Moved now = moved_by(bank);
  tape.moved({now.brought - before.brought, now.home - before.home});
}

template <class T>
Cost layer_cost(const RelationBank<T>& bank, Index cols, Index d, Index w) {
  Cost cost;
  for (const auto& term : bank.terms) {
    Index entries = 0;
    if (term.kind == Kind<T>::sparse) entries = term.sparse->entries();
    if (term.kind == Kind<T>::dense) entries = term.relations * bank.rows * bank.nodes;
    if (term.kind == Kind<T>::low_rank) entries = 2 * bank.rows * term.u->shape.back();
    if (term.kind == Kind<T>::self) entries = bank.rows;
    cost.flops += 2.0 * static_cast<double>(entries * cols * d) +
                  2.0 * static_cast<double>(bank.rows * cols * d * w * term.relations);
    const std::size_t word = term.weight && term.weight->in_bf16 ? sizeof(Bf16) : sizeof(T);
    cost.bytes += static_cast<double>(entries * (term.kind == Kind<T>::sparse ? 4 + word : word));
  }
  cost.bytes += static_cast<double>(bank.rows * cols * (d + w)) * sizeof(T);
  return cost;
}

/// Bytes that an update in backward reads and writes besides reading the weights once: weights, v and, if
/// present, m.
template <class T>
double update_bytes(const RelationBank<T>& bank, const LayerTerm<T>& item) {
  const DenseUpdate<T>* update = item.dense.update;
  if (!update) return 0;
  const bool moment = update->m || update->bf16.m;
  const auto entries = static_cast<double>(item.term->relations * bank.rows * bank.nodes);
  return entries * (moment ? 5 : 3) *
         static_cast<double>(item.term->weight->in_bf16 ? sizeof(Bf16) : sizeof(T));
}

/// Forward gathers ghosts. Backward computes twice as much and, if z is tracked, returns the gradients of
/// ghosts.
template <class T>
OpCost layer_costs(const RelationBank<T>& bank, Index cols, Index d, Index w, bool tracked) {
  OpCost cost{layer_cost(bank, cols, d, w), layer_cost(bank, cols, d, w)};
  cost.backward.flops *= 2;
  cost.backward.bytes *= 2;
  const Index row_bytes = cols * d * static_cast<Index>(sizeof(T));
  const auto messages = [](Cost& of, const Traffic& traffic) {
    of.messages = static_cast<double>(traffic.messages);
    of.message_bytes = static_cast<double>(traffic.bytes);
  };
  messages(cost.forward, bank.exchange->gather_cost(row_bytes));
  if (tracked) messages(cost.backward, bank.exchange->scatter_cost(row_bytes));
  return cost;
}

/// Columns of all time groups, (rows, Σ B, channels). This group's begin at `first`.
template <class T>
struct GatheredColumns {
  NodeView<T> all;
  Index first = 0;

  GatheredColumns(Tape<T>& tape, GroupGather& groups, NodeView<const T> mine) {
    const Exec& exec = tape.exec();
    const auto bytes_of = [](Index values) { return values * static_cast<Index>(sizeof(T)); };
    Device* device = exec.device;
    const auto sizes = tape.arena().template take<Index>(groups.groups());
    std::span<const T> values(mine.data, static_cast<std::size_t>(mine.size()));
    if (device) {
      const std::span<T> copy = tape.arena().template take<T>(mine.size());
      device->download(copy, mine.data);
      device->wait();
      values = copy;
    }
    const std::span<const std::byte> gathered = groups.gather(std::as_bytes(values), sizes);
    const std::byte* from = gathered.data();
    if (device) {
      const auto size = static_cast<Index>(gathered.size() / sizeof(T));
      T* here = tape.memory().template take<T>(size).data();
      device->upload(here,
                     std::span<const T>(reinterpret_cast<const T*>(from), static_cast<std::size_t>(size)));
      device->wait();  // the gathered bytes may not outlive this call
      from = reinterpret_cast<const std::byte*>(here);
    }
    const Index column = mine.rows * mine.channels;
    Index cols = 0;
    for (const Index size : sizes) cols += column > 0 ? size / bytes_of(column) : 0;
    all = {tape.memory().template take<T>(column * cols).data(), mine.rows, cols, mine.channels};
    Index at = 0;
    for (std::size_t g = 0; g < sizes.size() && column > 0; ++g) {
      const Index here = sizes[g] / bytes_of(column);
      if (static_cast<int>(g) == groups.group()) first = at;
      pack(exec, columns(all, at, here),
           NodeView<const T>(reinterpret_cast<const T*>(from), mine.rows, here, mine.channels));
      from += sizes[g];
      at += here;
    }
  }

  /// Columns [begin, begin + cols) of a view.
  template <class V>
  static NodeView<V> columns(NodeView<V> view, Index begin, Index cols) {
    view.data += begin * view.col_stride;
    view.cols = cols;
    return view;
  }
};

/// As the dense backward, if the update needs the columns of all time groups. dM uses the factors of all
/// groups; dz and dA use this group's. Collective over groups.
template <class T>
void dense_backward_of_groups(const Exec& exec, const Layer<T>& layer, const LayerTerm<T>& item,
                              NodeView<const T> delta, NodeView<const T> z, NodeView<T> dz) {
  Tape<T>& tape = *layer.tape;
  Arena& arena = tape.memory();
  const auto mark = tape.mark();
  GatheredColumns<T> deltas(tape, *layer.bank->groups, delta);
  const GatheredColumns<T> zs(tape, *layer.bank->groups, z);
  if (delta.rows == 0) deltas.all.cols = zs.all.cols;  // an empty message does not give its columns
  const NodeView<T> all(arena.template take_zeroed<T>(zs.all.size()).data(), z.rows, zs.all.cols, z.channels);
  DenseRelate<T> relate = item.dense_relate(exec, *layer.bank);
  const std::span<T> workspace =
      arena.template take<T>(relate_dense_workspace(exec, relate, zs.all.cols, delta.channels));
  relate.context = nullptr;
  detail::chunked_dense_backward<T>(exec, dz.data ? all : NodeView<T>{}, {}, item.dense, relate, deltas.all,
                                    zs.all, workspace, item.term->stream(exec.device),
                                    layer.bank->dense_chunk_rows);
  if (dz.data) accumulate(exec, dz, T{1}, NodeView<const T>(zs.columns(all, zs.first, z.cols)));
  if (item.a.gradient.data) {
    const Index d = z.channels, size = layer.bank->rows * z.cols;
    const std::span<T> scratch = arena.template take<T>(linear_scratch_size(size, delta.channels, d));
    for (Index k = 0; k < item.term->relations; ++k) {
      MatrixView<T> da = item.a.gradient;
      da.data += k * d;
      da.cols = d;
      linear_backward_weight(exec, da, MatrixView<const T>(delta.data, size, delta.channels),
                             MatrixView<const T>(item.context + k * size * d, size, d), scratch);
    }
  }
  tape.rewind(mark);
}

/// Backward of every sparse term over the owned columns, or over the ghosts. Dense terms join with the
/// columns that they see: all positions, or on one rank the owned rows.
template <class T>
void columns_backward(const Exec& exec, const Layer<T>& layer, bool owned, NodeView<const T> delta,
                      NodeView<const T> z, NodeView<T> dz) {
  // The first column's number cannot tell: a rank without rows has ghosts from column 0 on.
  const Index first = owned ? 0 : layer.bank->rows;
  const bool dense = !owned || layer.ghost.rows == 0;
  for (const LayerTerm<T>& item : layer.terms) {
    if (item.term->kind == Kind<T>::sparse) {
      const bool carries = layer.carrier == &item && owned;
      relate_sparse_backward<T>(
          exec, dz, item.a.gradient, item.dm, detail::sparse_relate(exec, *item.term, item.a.value),
          carries ? layer.identity : IdentityBlock<T>{}, carries ? layer.d_identity : IdentityGradient<T>{},
          first, delta, z, layer.workspace);
    }
    if (item.term->kind == Kind<T>::dense && dense && layer.bank->groups && item.dense.update)
      dense_backward_of_groups<T>(exec, layer, item, delta, z, dz);
    else if (item.term->kind == Kind<T>::dense && dense)
      detail::chunked_dense_backward<T>(exec, dz, item.a.gradient, item.dense,
                                        item.dense_relate(exec, *layer.bank), delta, z, layer.workspace,
                                        item.term->stream(exec.device), layer.bank->dense_chunk_rows);
  }
}

template <class T>
void Layer<T>::backward(const Exec& exec, NodeView<const T> delta) const {
  const Moved before = moved_by(*bank);
  // Ghost columns first: their gradients travel while those of the owned columns are computed.
  if (d_ghost.data) clear(exec, d_ghost.data, d_ghost.size());
  if (ghost.rows > 0) columns_backward<T>(exec, *this, false, delta, ghost, d_ghost);
  if (z.tracked()) bank->exchange->scatter_add_begin(NodeView<const T>(d_ghost), z.gradient);
  for (const LayerTerm<T>& item : terms)
    if (item.term->kind == Kind<T>::low_rank) item.low_rank.backward_begin(exec, delta);
  columns_backward<T>(exec, *this, true, delta, z.value, z.gradient);
  for (const LayerTerm<T>& item : terms) {
    if (item.term->kind == Kind<T>::low_rank) item.low_rank.backward_end(exec, z.value, z.gradient);
    if (item.term->kind == Kind<T>::self) item.self.backward(exec, delta, z.value, z.gradient);
  }
  if (z.tracked()) bank->exchange->scatter_add_end();
  tell_moved(*tape, *bank, before);
}

template <class T>
std::span<T> make_workspace(Tape<T>& tape, const RelationBank<T>& bank, std::span<const LayerTerm<T>> terms,
                            Index cols, Index channels) {
  const Exec& exec = tape.exec();
  Index size = 0;
  for (const LayerTerm<T>& item : terms) {
    if (item.term->kind == Kind<T>::sparse)
      size = std::max(size, relate_sparse_workspace(
                                exec, detail::sparse_relate(exec, *item.term, item.a.value), cols, channels));
    if (item.term->kind == Kind<T>::dense)
      size = std::max(
          size, relate_dense_workspace(exec, detail::dense_relate(exec, bank, *item.term, item.a.value), cols,
                                       channels));
  }
  return tape.memory().template take<T>(size);
}

/// Returns h with bias and identity added, or leaves both to the first sparse term's sweep.
template <class T>
Var<T> start_layer(Tape<T>& tape, Layer<T>& layer, Parameter<T>& weight, Parameter<T>* bias) {
  const Index w = weight.shape[0];
  const Index d = layer.z.channels();
  const Index rows = layer.bank->rows;
  for (const LayerTerm<T>& item : layer.terms)
    if (!layer.carrier && item.term->kind == Kind<T>::sparse) layer.carrier = &item;
  if (!layer.carrier) {
    const Var<T> h = zeros(tape, rows, layer.z.cols(), w, true);
    if (bias) bias_accumulate(tape, h, *bias);
    linear_accumulate(tape, h, layer.z, weight, 0);
    return h;
  }
  Device* device = tape.exec().device;
  layer.identity = {{weight.data(device), w, d, weight.shape[1]}, bias ? bias->data(device) : nullptr};
  if (tape.recording()) {
    if (T* target = weight.gradient_target()) layer.d_identity.da = {target, w, d, weight.shape[1]};
    if (bias) layer.d_identity.dbias = bias->gradient_target();
  }
  return tape.make(rows, layer.z.cols(), w, true);
}

}  // namespace

template <class T>
Var<T> relate_linear(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& z, Parameter<T>& weight,
                     Parameter<T>* bias) {
  require(z.rows() == bank.rows, "relate_linear: z must hold the owned rows");
  require(z.value.packed(), "relate_linear: z must be packed");
  const Exec& exec = tape.exec();
  const Moved before = moved_by(bank);
  const Index w = weight.shape[0];
  const Index d = z.channels();
  Arena& arena = tape.memory();
  const Index ghosts = bank.exchange->ghosts();
  Layer<T> layer{&tape, &bank, make_terms(tape, bank, weight, d), nullptr, {}, {}, z, {}, {}, {}};
  layer.ghost = {arena.template take<T>(ghosts * z.value.width()).data(), ghosts, z.cols(), d};
  bank.exchange->gather_begin(NodeView<const T>(z.value), layer.ghost);
  if (z.tracked()) layer.d_ghost = {arena.template take<T>(layer.ghost.size()).data(), ghosts, z.cols(), d};
  layer.workspace = make_workspace<T>(tape, bank, layer.terms, z.cols(), w);
  if (tape.recording())
    for (LayerTerm<T>& item : layer.terms) prepare_dense(tape, item, bank.rows * z.value.width());

  const Var<T> h = start_layer(tape, layer, weight, bias);
  // Sums over all ranks travel with the ghosts. Rows that need the sums come later.
  for (LayerTerm<T>& item : layer.terms)
    if (item.term->kind == Kind<T>::low_rank)
      item.low_rank = LowRank<T>::begin(tape, bank, *item.term, item.a, z.value);
  const auto sparse = [&](std::span<const LocalColumn> rows) {
    for (const LayerTerm<T>& item : layer.terms)
      if (item.term->kind == Kind<T>::sparse)
        relate_sparse_forward<T>(exec, h.value, detail::sparse_relate(exec, *item.term, item.a.value),
                                 layer.carrier == &item ? layer.identity : IdentityBlock<T>{}, rows, z.value,
                                 layer.ghost, layer.workspace);
  };
  sparse(bank.interior);
  bank.exchange->gather_end();
  sparse(bank.boundary);
  for (LayerTerm<T>& item : layer.terms) {
    if (item.term->kind == Kind<T>::low_rank) item.low_rank.end(exec, h.value);
    if (item.term->kind == Kind<T>::self)
      item.self = SelfTerm<T>::forward(tape, *item.term, item.a, h.value, z.value);
    if (item.term->kind == Kind<T>::dense)
      detail::chunked_dense_forward<T>(exec, h.value, item.dense_relate(exec, bank), layer.all(z.value),
                                       layer.workspace, item.term->stream(exec.device),
                                       bank.dense_chunk_rows);
  }

  tell_moved(tape, bank, before);
  OpCost cost = layer_costs<T>(bank, z.cols(), d, w, z.tracked());
  for (const LayerTerm<T>& item : layer.terms) cost.backward.bytes += update_bytes(bank, item);
  detail::touch(tape, bank, h, z, weight, bias);
  tape.record(bank.op, cost.forward, cost.backward, [layer, h, exec] { layer.backward(exec, h.gradient); });
  return h;
}

template <class T>
Var<T> whole_table(Tape<T>& tape, Parameter<T>& table) {
  require(table.shape.size() == 3, "whole_table: the table must be (T, n, d)");
  const Index steps = table.shape[0], n = table.shape[1], d = table.shape[2];
  Var<T> var;
  var.value = {table.data(tape.exec().device), n, steps, d, d, n * d};
  T* target = tape.recording() ? table.gradient_target() : nullptr;
  // A rank without rows is tracked like the others, because they wait for it when gradients return to their
  // owners.
  if (tape.recording() && table.trained && !target) target = tape.memory().template take<T>(0).data();
  if (target) var.gradient = {target, n, steps, d, d, n * d};
  return var;
}

#define ROSSBY_INSTANTIATE(T)                                                                   \
  template Var<T> relate_linear(Tape<T>&, const RelationBank<T>&, const Var<T>&, Parameter<T>&, \
                                Parameter<T>*);                                                 \
  template Var<T> whole_table(Tape<T>&, Parameter<T>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)

}  // namespace rossby
