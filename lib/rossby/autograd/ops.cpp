#include "rossby/autograd/ops.hpp"

#include <algorithm>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/broadcast.hpp"
#include "rossby/kernels/dropout.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/gru.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby {
namespace {

using detail::count;
using detail::finish;
using detail::read;
using detail::target;

template <class T>
constexpr double word = sizeof(T);

/// True if gradients flow to a parameter. The target cannot tell: it is null if a rank's block is empty, and
/// that rank must still take part in every collective backward.
template <class T>
bool flows(const Tape<T>& tape, const Parameter<T>& parameter) {
  return tape.recording() && parameter.trained;
}

/// A copy that lives as long as the step.
template <class V>
std::span<const V> keep(Arena& arena, std::span<const V> values) {
  const auto copy = arena.take<V>(std::ssize(values));
  std::copy(values.begin(), values.end(), copy.begin());
  return copy;
}

template <class T>
Var<T> activation(Tape<T>& tape, Activation f, std::string_view name, const OpCost& cost, const Var<T>& x) {
  const Var<T> y = tape.make(x.rows(), x.cols(), x.channels(), x.tracked());
  activation_forward(tape.exec(), f, y.value, read(x.value));
  tape.touches(y, x);
  finish(tape, name, cost, y.tracked(), [exec = tape.exec(), f, x, y] {
    activation_backward(exec, f, x.gradient, read(y.value), read(y.gradient));
  });
  return y;
}

}  // namespace

template <class T>
Var<T> tanh(Tape<T>& tape, const Var<T>& x) {
  return activation(tape, Activation::tanh, "tanh", costs::transcendental(count(x), word<T>), x);
}

template <class T>
Var<T> sigmoid(Tape<T>& tape, const Var<T>& x) {
  return activation(tape, Activation::sigmoid, "sigmoid", costs::transcendental(count(x), word<T>), x);
}

template <class T>
Var<T> relu(Tape<T>& tape, const Var<T>& x) {
  return activation(tape, Activation::relu, "relu", costs::relu(count(x), word<T>), x);
}

template <class T>
Var<T> add(Tape<T>& tape, const Var<T>& a, const Var<T>& b) {
  const Var<T> y = tape.make(a.rows(), a.cols(), a.channels(), a.tracked() || b.tracked());
  add(tape.exec(), y.value, read(a.value), read(b.value));
  tape.touches(y, a, b);
  finish(tape, "add", costs::add(count(y), word<T>), y.tracked(), [exec = tape.exec(), a, b, y] {
    if (a.tracked()) accumulate(exec, a.gradient, T{1}, read(y.gradient));
    if (b.tracked()) accumulate(exec, b.gradient, T{1}, read(y.gradient));
  });
  return y;
}

template <class T>
Var<T> multiply(Tape<T>& tape, const Var<T>& a, const Var<T>& b) {
  const Var<T> y = tape.make(a.rows(), a.cols(), a.channels(), a.tracked() || b.tracked());
  multiply(tape.exec(), y.value, read(a.value), read(b.value));
  tape.touches(y, a, b);
  finish(tape, "multiply", costs::multiply(count(y), word<T>), y.tracked(), [exec = tape.exec(), a, b, y] {
    if (a.tracked()) multiply_accumulate(exec, a.gradient, read(y.gradient), read(b.value));
    if (b.tracked()) multiply_accumulate(exec, b.gradient, read(y.gradient), read(a.value));
  });
  return y;
}

template <class T>
Var<T> zeros(Tape<T>& tape, Index rows, Index cols, Index channels, bool tracked) {
  const Var<T> y = tape.make(rows, cols, channels, tracked);
  clear(tape.exec(), y.value.data, y.value.size());
  return y;
}

namespace {

/// Broadcasts x to the rows and columns of `shape`.
template <class T>
NodeView<const T> spread_to(NodeView<const T> x, const NodeView<T>& shape) {
  if (x.rows != shape.rows) x.row_stride = 0;
  if (x.cols != shape.cols) x.col_stride = 0;
  x.rows = shape.rows;
  x.cols = shape.cols;
  return x;
}

}  // namespace

template <class T>
void add_broadcast(Tape<T>& tape, const Var<T>& y, const Var<T>& x) {
  const bool to_rows = x.rows() == 1 && x.cols() == y.cols();
  require((to_rows || (x.rows() == y.rows() && x.cols() == 1)) && x.channels() == y.channels(),
          "what is added to all rows or columns has one of them");
  require(y.tracked() || !x.tracked(), "what is accumulated into must be tracked");
  accumulate(tape.exec(), y.value, T{1}, spread_to(read(x.value), y.value));
  tape.touches(y, x);
  tape.set_shape({y.rows(), y.cols(), y.channels()});
  finish(tape, "add_broadcast", costs::add_broadcast(count(y), count(x), word<T>), x.tracked(),
         [exec = tape.exec(), to_rows, x, y] {
           if (to_rows)
             sum_over_rows(exec, x.gradient, read(y.gradient));
           else
             sum_over_columns(exec, x.gradient, read(y.gradient));
         });
}

namespace {

/// embed_columns for a table that has gradients only for the rows of the step.
template <class T>
Var<T> embed_rows(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times) {
  TableRows<T>* sink = table.table_rows();
  const Cost late = sink->bring_up_to_date(tape.exec(), times);
  if (BlockTrace* trace = tape.trace()) trace->note("catch_up", late);
  const bool tracked = flows(tape, table);
  const Var<T> y = tape.make(table.shape[1], std::ssize(times), table.shape[2], tracked);
  embed_columns_forward(tape.exec(), y.value, static_cast<const T*>(table.data(tape.exec().device)),
                        table.shape[0], times);
  const auto slots = tape.arena().template take<Index>(std::ssize(times));
  const auto begins = tape.arena().template take<Index>(std::ssize(times));
  if (tracked) {
    sink->reserve(times, slots);
    table.live = table.in_step = true;
  }
  tape.touches(y, table);
  finish(tape, "embed", costs::embed(count(y), word<T>), tracked,
         [exec = tape.exec(), sink, y, slots, begins] {
           sink->begin_sums(slots, begins);
           embed_columns_backward(exec, sink->gradients(), sink->slots(), read(y.gradient),
                                  std::span<const Index>(slots), std::span<const Index>(begins));
         });
  return y;
}

}  // namespace

template <class T>
Var<T> embed_columns(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times) {
  const bool flat = table.shape.size() == 2;
  require(flat || table.shape.size() == 3, "an embedding table is (steps, n, d) or (steps, d)");
  if (table.table_rows()) return embed_rows(tape, table, times);
  T* gradient = target(tape, table);
  const Index steps = table.shape[0];
  const Var<T> y =
      tape.make(flat ? 1 : table.shape[1], std::ssize(times), table.shape.back(), flows(tape, table));
  embed_columns_forward(tape.exec(), y.value, static_cast<const T*>(table.data(tape.exec().device)), steps,
                        times);
  tape.touches(y, table);
  finish(tape, "embed", costs::embed(count(y), word<T>), y.tracked(),
         [exec = tape.exec(), gradient, steps, y, kept = keep(tape.arena(), times)] {
           embed_columns_backward(exec, gradient, steps, read(y.gradient), kept);
         });
  return y;
}

template <class T>
Var<T> embed_pairs(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times,
                   std::span<const Index> rows) {
  require(table.shape.size() == 3, "an embedding table is (steps, n, d)");
  T* gradient = target(tape, table);
  const Index steps = table.shape[0];
  const Index n = table.shape[1];
  const Var<T> y = tape.make(std::ssize(times), 1, table.shape[2], flows(tape, table));
  embed_pairs_forward(tape.exec(), y.value, static_cast<const T*>(table.data(tape.exec().device)), steps, n,
                      times, rows);
  tape.touches(y, table);
  finish(tape, "embed", costs::embed(count(y), word<T>), y.tracked(),
         [exec = tape.exec(), gradient, steps, n, y, t = keep(tape.arena(), times),
          i = keep(tape.arena(), rows)] {
           embed_pairs_backward(exec, gradient, steps, n, read(y.gradient), t, i);
         });
  return y;
}

template <class T>
Var<T> dropout(Tape<T>& tape, const Var<T>& x, double rate, const Random& random,
               std::span<const Index> row_keys, const ColumnKeys& col_keys) {
  if (rate == 0) return x;
  const Var<T> y = tape.make(x.rows(), x.cols(), x.channels(), x.tracked());
  const auto mask = tape.memory().template take<std::uint8_t>(x.value.size());
  dropout_forward(tape.exec(), y.value, mask, read(x.value), rate, random, row_keys, col_keys);
  tape.touches(y, x);
  finish(tape, "dropout", costs::dropout(count(x), word<T>), y.tracked(),
         [exec = tape.exec(), x, y, mask, rate] {
           dropout_backward(exec, x.gradient, read(y.gradient), std::span<const std::uint8_t>(mask), rate);
         });
  return y;
}

template <class T>
void masked_error(Tape<T>& tape, MaskedError kind, const Var<T>& prediction, NodeView<const float> truth,
                  double scale, double* sum) {
  masked_error_sum(tape.exec(), kind, read(prediction.value), truth, sum);
  tape.touches({}, prediction);
  finish(tape, kind == MaskedError::squared ? "masked_squared_error" : "masked_absolute_error",
         costs::masked_error(count(prediction), word<T>), prediction.tracked(),
         [exec = tape.exec(), kind, prediction, truth, scale] {
           masked_error_backward(exec, kind, prediction.gradient, read(prediction.value), truth, scale);
         });
}

template <class T>
void masked_squared_error(Tape<T>& tape, const Var<T>& prediction, NodeView<const float> truth, double scale,
                          double* sum) {
  masked_error(tape, MaskedError::squared, prediction, truth, scale, sum);
}

template <class T>
void masked_absolute_error(Tape<T>& tape, const Var<T>& prediction, NodeView<const float> truth, double scale,
                           double* sum) {
  masked_error(tape, MaskedError::absolute, prediction, truth, scale, sum);
}

template <class T>
void squared_difference(Tape<T>& tape, const Var<T>& a, const Var<T>& b, double scale, double* sum) {
  const bool tracked = a.tracked() || b.tracked();
  // The gradients are already known. Writing them in this pass saves a second pass and the one that clears
  // them.
  const auto gradient_of = [&](const Var<T>& x) -> GradientOut<T> {
    return {x.gradient, x.tracked() && !tape.claim_gradient(x)};
  };
  const GradientOut<T> da = gradient_of(a), db = gradient_of(b);
  squared_difference_gradients(tape.exec(), da, db, read(a.value), read(b.value), scale, sum);
  if (OpCheck<T>* check = tape.check())
    for (const Var<T>* x : {&a, &b}) check->look_at_gradient("squared_difference", x->gradient);
  tape.touches(Var<T>{});
  finish(tape, "squared_difference", costs::squared_difference(count(a), word<T>, tracked), false, [] {});
}

template <class T>
void clamp_l1(Tape<T>& tape, Parameter<T>& weights, double scale, double* sum) {
  const std::span<const T> m(weights.data(tape.exec().device),
                             static_cast<std::size_t>(weights.value.size()));
  DenseUpdate<T>* update = weights.trained && weights.sink ? weights.sink->update() : nullptr;
  if (update && tape.recording()) {
    // The sum and its gradient use the passes that the relation's own op makes over M.
    require(update->recorded || !weights.in_bf16, "the norm of weights in bf16 comes from their layer");
    if (!update->recorded) weights.settle_stream();
    if (!update->recorded)
      clamp_l1_sum(weights.stream ? Exec{} : tape.exec(), m, sum);
    else if (Device* device = tape.exec().device)
      device->then_add(sum, &update->weight_sum);
    else
      *sum += update->weight_sum;
    update->l1 += scale;
    return;
  }
  T* gradient = target(tape, weights);
  clamp_l1_sum(tape.exec(), m, sum);
  tape.touches({}, weights);
  finish(tape, "clamp_l1", costs::clamp_l1(static_cast<double>(m.size()), word<T>), gradient != nullptr,
         [exec = tape.exec(), gradient, m, scale] {
           clamp_l1_backward(exec, std::span<T>(gradient, m.size()), m, scale);
         });
}

#define ROSSBY_INSTANTIATE(T)                                                                               \
  template Var<T> tanh(Tape<T>&, const Var<T>&);                                                            \
  template Var<T> sigmoid(Tape<T>&, const Var<T>&);                                                         \
  template Var<T> relu(Tape<T>&, const Var<T>&);                                                            \
  template Var<T> add(Tape<T>&, const Var<T>&, const Var<T>&);                                              \
  template Var<T> multiply(Tape<T>&, const Var<T>&, const Var<T>&);                                         \
  template void add_broadcast(Tape<T>&, const Var<T>&, const Var<T>&);                                      \
  template Var<T> zeros(Tape<T>&, Index, Index, Index, bool);                                               \
  template Var<T> embed_columns(Tape<T>&, Parameter<T>&, std::span<const Index>);                           \
  template Var<T> embed_pairs(Tape<T>&, Parameter<T>&, std::span<const Index>, std::span<const Index>);     \
  template Var<T> dropout(Tape<T>&, const Var<T>&, double, const Random&, std::span<const Index>,           \
                          const ColumnKeys&);                                                               \
  template void masked_error(Tape<T>&, MaskedError, const Var<T>&, NodeView<const float>, double, double*); \
  template void masked_squared_error(Tape<T>&, const Var<T>&, NodeView<const float>, double, double*);      \
  template void masked_absolute_error(Tape<T>&, const Var<T>&, NodeView<const float>, double, double*);     \
  template void squared_difference(Tape<T>&, const Var<T>&, const Var<T>&, double, double*);                \
  template void clamp_l1(Tape<T>&, Parameter<T>&, double, double*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
