#include <algorithm>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/linear.hpp"

namespace rossby {
namespace {

using detail::read;
using detail::target;

/// Node data as matrices of (rows and columns, channels). One matrix if a single stride connects all entries,
/// otherwise one matrix per column.
template <class T>
bool is_matrix(const NodeView<T>& view) {
  return view.rows <= 1 || view.cols <= 1 || view.row_stride == view.cols * view.col_stride;
}

template <class T>
MatrixView<T> as_matrix(const NodeView<T>& view) {
  const Index rows = view.rows * view.cols;
  const Index stride = view.cols <= 1 ? view.row_stride : view.col_stride;
  return {view.data, rows, view.channels, rows <= 1 ? view.channels : stride};
}

template <class T>
MatrixView<T> column(const NodeView<T>& view, Index b) {
  return {view.at(0, b), view.rows, view.channels, view.rows <= 1 ? view.channels : view.row_stride};
}

/// Calls f(matrices…) on views that agree in rows and columns.
template <class F, class... Views>
void for_each_matrix(const F& f, const Views&... views) {
  if ((is_matrix(views) && ...)) return f(as_matrix(views)...);
  const Index cols = std::max({views.cols...});
  for (Index b = 0; b < cols; ++b) f(column(views, b)...);
}

/// State for a dense layer's backward, which skips null or untracked sides.
template <class T>
struct LinearBackward {
  Exec exec;
  Var<T> y;
  Var<T> x;
  MatrixView<const T> weight;
  T* dweight;  // laid out as `weight`
  T* dbias;
  std::span<T> scratch;

  void operator()() const {
    const NodeView<const T> dy = y.gradient;
    if (dweight) {
      const MatrixView<T> to(dweight, weight.rows, weight.cols, weight.stride);
      for_each_matrix([&](auto g, auto input) { linear_backward_weight(exec, to, g, input, scratch); }, dy,
                      read(x.value));
    }
    if (dbias) for_each_matrix([&](auto g) { column_sum(exec, dbias, g, scratch); }, dy);
    if (x.tracked())
      for_each_matrix([&](auto to, auto g) { linear_backward_input(exec, to, g, weight); }, x.gradient, dy);
  }
};

/// Scratch for the layer's two reductions, large enough for either way of cutting its matrices.
template <class T>
std::span<T> take_scratch(Tape<T>& tape, const Var<T>& y, Index in) {
  const Index out = y.channels();
  Index size = 0;
  for (const Index m : {y.rows() * y.cols(), y.rows()})
    size = std::max({size, linear_scratch_size(m, out, in), linear_scratch_size(m, out, 1)});
  return tape.memory().template take<T>(size);
}

template <class T>
void record(Tape<T>& tape, std::string_view name, const OpCost& cost, bool tracked,
            const LinearBackward<T>& backward) {
  if (tracked)
    tape.record(name, cost.forward, cost.backward, backward);
  else
    tape.record(name, cost.forward, Cost{}, [] {});
}

template <class T>
OpCost cost_of(const Var<T>& y, const Var<T>& x, bool accumulate, bool trained) {
  const auto m = static_cast<double>(y.rows() * y.cols());
  const auto in = static_cast<double>(x.channels());
  const auto out = static_cast<double>(y.channels());
  return accumulate ? costs::linear_accumulate(m, in, out, sizeof(T), x.tracked(), trained)
                    : costs::linear(m, in, out, sizeof(T), x.tracked(), trained);
}

}  // namespace

template <class T>
Var<T> linear(Tape<T>& tape, const Var<T>& x, Parameter<T>& weight,
              std::type_identity_t<Parameter<T>>* bias) {
  require(weight.shape.size() == 2 && weight.shape[1] == x.channels(), "a dense layer's weight is (out, in)");
  const Index out = weight.shape[0];
  require(!bias || bias->size() == out, "a dense layer's bias is (out)");
  T* dweight = target(tape, weight);
  T* dbias = bias ? target(tape, *bias) : nullptr;
  const Var<T> y = tape.make(x.rows(), x.cols(), out, x.tracked() || dweight || dbias);
  const MatrixView<const T> w(weight.data(tape.exec().device), out, x.channels());
  const T* b = bias ? bias->data(tape.exec().device) : nullptr;
  for_each_matrix([&](auto to, auto from) { linear_forward(tape.exec(), to, from, w, b, false); }, y.value,
                  read(x.value));
  const std::span<T> scratch = dweight || dbias ? take_scratch(tape, y, x.channels()) : std::span<T>{};
  tape.touches(y, x, weight, bias);
  record(tape, "linear", cost_of(y, x, false, dweight), y.tracked(),
         {tape.exec(), y, x, w, dweight, dbias, scratch});
  return y;
}

template <class T>
void linear_accumulate(Tape<T>& tape, const Var<T>& y, const Var<T>& x, Parameter<T>& weight,
                       Index first_column) {
  require(y.rows() == x.rows() && y.cols() == x.cols(), "a dense layer keeps rows and columns");
  require(weight.shape.size() == 2 && weight.shape[0] == y.channels(), "a dense layer's weight is (out, in)");
  require(first_column >= 0 && first_column + x.channels() <= weight.shape[1],
          "the columns lie inside the weight");
  T* dweight = target(tape, weight);
  require(y.tracked() || !tape.recording() || (!dweight && !x.tracked()),
          "what is accumulated into must be tracked");
  const MatrixView<const T> w(weight.data(tape.exec().device) + first_column, y.channels(), x.channels(),
                              weight.shape[1]);
  for_each_matrix(
      [&](auto to, auto from) {
        linear_forward(tape.exec(), to, from, w, static_cast<const T*>(nullptr), true);
      },
      y.value, read(x.value));
  const std::span<T> scratch = dweight ? take_scratch(tape, y, x.channels()) : std::span<T>{};
  tape.touches(y, x, weight);
  record(tape, "linear_accumulate", cost_of(y, x, true, dweight), y.tracked(),
         {tape.exec(), y, x, w, dweight ? dweight + first_column : nullptr, nullptr, scratch});
}

template <class T>
void bias_accumulate(Tape<T>& tape, const Var<T>& y, Parameter<T>& bias) {
  require(bias.size() == y.channels(), "a bias has one value a channel");
  T* dbias = target(tape, bias);
  require(y.tracked() || !dbias, "what is accumulated into must be tracked");
  for_each_matrix(
      [&](auto to) { bias_add(tape.exec(), to, static_cast<const T*>(bias.data(tape.exec().device))); },
      y.value);
  const std::span<T> scratch = dbias ? take_scratch(tape, y, 1) : std::span<T>{};
  const OpCost cost = costs::bias_accumulate(static_cast<double>(y.rows() * y.cols()),
                                             static_cast<double>(y.channels()), sizeof(T));
  tape.touches(y, bias);
  record(tape, "bias_accumulate", cost, dbias != nullptr,
         {tape.exec(), y, Var<T>{}, {}, nullptr, dbias, scratch});
}

#define ROSSBY_INSTANTIATE(T)                                                                    \
  template Var<T> linear(Tape<T>&, const Var<T>&, Parameter<T>&, Parameter<T>*);                 \
  template void linear_accumulate(Tape<T>&, const Var<T>&, const Var<T>&, Parameter<T>&, Index); \
  template void bias_accumulate(Tape<T>&, const Var<T>&, Parameter<T>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
