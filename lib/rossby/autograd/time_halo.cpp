#include "rossby/autograd/time_halo.hpp"

#include "rossby/autograd/link_values.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"

namespace rossby {
namespace {

using detail::message_cost;
using detail::read;

/// Columns [first, first + cols) of a view.
template <class T>
NodeView<T> columns(NodeView<T> view, Index first, Index cols) {
  view.data += first * view.col_stride;
  view.cols = cols;
  return view;
}

}  // namespace

template <class T>
void lend_row(Tape<T>& tape, Parameter<T>& table, Index row, RowLink& link, int group) {
  require(table.shape.size() == 3, "a table whose rows are lent is (steps, n, d)");
  const Index n = table.shape[1], d = table.shape[2], size = n * d;
  TableRows<T>* sink = table.table_rows();
  if (sink) {
    const Cost late = sink->bring_up_to_date(tape.exec(), {&row, 1});
    if (BlockTrace* trace = tape.trace()) trace->note("catch_up", late);
  }
  Index slot = row;
  T* gradient = nullptr;
  if (tape.recording() && table.trained) {
    if (sink) {
      sink->reserve({&row, 1}, {&slot, 1});
      table.live = table.in_step = true;
    } else {
      gradient = table.gradient_target();
    }
  }
  const NodeView<const T> lent(table.data(tape.exec().device) + row * size, n, 1, d);
  detail::send_values(tape, link, group, lent);
  const bool returns = sink || gradient;
  const Cost cost = message_cost(size, sizeof(T));
  tape.touches({}, table);
  detail::finish(tape, "lend", {cost, Cost{}}, returns && tape.recording(),
                 [&tape, &link, group, sink, gradient, slot, n, d, steps = table.shape[0]] {
                   const auto mark = tape.mark();
                   const NodeView<T> back(tape.memory().template take<T>(n * d).data(), n, 1, d);
                   detail::receive_values(tape, link, group, back);
                   Index begins = 0;
                   if (sink) sink->begin_sums({&slot, 1}, {&begins, 1});
                   embed_columns_backward<T>(tape.exec(), sink ? sink->gradients() : gradient,
                                             sink ? sink->slots() : steps, read(back), {&slot, 1},
                                             {&begins, 1});
                   tape.rewind(mark);
                 });
}

template <class T>
Var<T> borrow_row(Tape<T>& tape, Index rows, Index channels, RowLink& link, int group) {
  const Var<T> y = tape.make(rows, 1, channels, tape.recording());
  detail::receive_values(tape, link, group, y.value);
  tape.touches(y);
  detail::finish(tape, "borrow", {Cost{}, message_cost(rows * channels, sizeof(T))}, y.tracked(),
                 [&tape, &link, group, y] { detail::send_values(tape, link, group, read(y.gradient)); });
  return y;
}

template <class T>
Var<T> join_columns(Tape<T>& tape, const Var<T>& a, const Var<T>& b) {
  require(a.rows() == b.rows() && a.channels() == b.channels(), "columns of the same rows and channels");
  const Var<T> y = tape.make(a.rows(), a.cols() + b.cols(), a.channels(), a.tracked() || b.tracked());
  pack(tape.exec(), columns(y.value, 0, a.cols()), read(a.value));
  pack(tape.exec(), columns(y.value, a.cols(), b.cols()), read(b.value));
  const double bytes = 2 * detail::count(y) * sizeof(T);
  tape.touches(y, a, b);
  detail::finish(tape, "join", {{0, bytes, 0, 0}, {0, bytes, 0, 0}}, y.tracked(),
                 [exec = tape.exec(), a, b, y] {
                   if (a.tracked())
                     accumulate(exec, a.gradient, T{1}, read(columns(y.gradient, 0, a.cols())));
                   if (b.tracked())
                     accumulate(exec, b.gradient, T{1}, read(columns(y.gradient, a.cols(), b.cols())));
                 });
  return y;
}

#define ROSSBY_INSTANTIATE(T)                                            \
  template void lend_row(Tape<T>&, Parameter<T>&, Index, RowLink&, int); \
  template Var<T> borrow_row(Tape<T>&, Index, Index, RowLink&, int);     \
  template Var<T> join_columns(Tape<T>&, const Var<T>&, const Var<T>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
