#include "rossby/autograd/pipeline.hpp"

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/link_values.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/elementwise.hpp"

namespace rossby {
namespace {

using detail::message_cost;
using detail::read;

template <class T>
void send(Tape<T>& tape, RowLink& link, int to, const NodeView<T>& values) {
  if (BlockTrace* trace = tape.trace())
    trace->passes(to, true, static_cast<double>(values.size() * sizeof(T)));
  detail::send_values(tape, link, to, read(values));
}

template <class T>
void receive(Tape<T>& tape, RowLink& link, int from, const NodeView<T>& values) {
  if (BlockTrace* trace = tape.trace())
    trace->passes(from, false, static_cast<double>(values.size() * sizeof(T)));
  detail::receive_values(tape, link, from, values);
}

template <class T>
Var<T> sent(Tape<T>& tape, RowLink& link, const Var<T>& x, int to) {
  const Block<T> block(tape, "hand_over");
  block.reads(x);
  const NodeView<T>& value = x.value;
  require(value.packed(), "a value that another stage needs is packed");
  send(tape, link, to, value);
  tape.touches({}, x);
  detail::finish(tape, "hand_over", {message_cost(value.size(), sizeof(T)), Cost{}}, tape.recording(),
                 [&tape, &link, x, to] {
                   const auto mark = tape.mark();
                   const NodeView<T> back(tape.memory().template take<T>(x.value.size()).data(), x.rows(),
                                          x.cols(), x.channels());
                   receive(tape, link, to, back);
                   if (x.tracked()) accumulate(tape.exec(), x.gradient, T{1}, read(back));
                   tape.rewind(mark);
                 });
  return x;
}

template <class T>
Var<T> received(Tape<T>& tape, RowLink& link, Index rows, Index cols, Index channels, int from) {
  const Block<T> block(tape, "take_over");
  const Var<T> y = tape.make(rows, cols, channels, tape.recording());
  receive(tape, link, from, y.value);
  tape.touches(y);
  detail::finish(tape, "take_over", {Cost{}, message_cost(y.value.size(), sizeof(T))}, y.tracked(),
                 [&tape, &link, y, from] { send(tape, link, from, y.gradient); });
  return block.hands_on(y);
}

}  // namespace

template <class T>
Var<T> hand_over(Tape<T>& tape, const Pipeline& pipeline, const Var<T>& x, Index rows, Index cols,
                 Index channels, int from, int to) {
  if (!pipeline.on() || from == to) return x;
  if (pipeline.stage == from) return sent(tape, *pipeline.link, x, to);
  if (pipeline.stage == to) return received<T>(tape, *pipeline.link, rows, cols, channels, from);
  return {};
}

#define ROSSBY_INSTANTIATE(T) \
  template Var<T> hand_over(Tape<T>&, const Pipeline&, const Var<T>&, Index, Index, Index, int, int);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
