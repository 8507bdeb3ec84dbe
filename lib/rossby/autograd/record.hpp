#pragma once

#include <string_view>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"

// Internal to lib/rossby/autograd: helpers for the definitions of ops.

namespace rossby::detail {

template <class T>
NodeView<const T> read(const NodeView<T>& view) {
  return view;
}

/// Target of a parameter's gradient while recording; null if it is fixed or nothing records.
template <class T>
T* target(Tape<T>& tape, Parameter<T>& parameter) {
  return tape.recording() ? parameter.gradient_target() : nullptr;
}

template <class T>
double count(const Var<T>& x) {
  return static_cast<double>(x.value.size());
}

/// Cost of one message.
inline Cost message_cost(Index values, std::size_t word) {
  return {0, 0, 1, static_cast<double>(values) * static_cast<double>(word)};
}

/// Adds an op's two sums of doubles over ranks to its cost. The forward sum has already run; `before` is the
/// reducer's traffic before it. The host does not see the messages of sums between devices, so each counts as
/// one.
inline void add_sums(OpCost& cost, const Exec& exec, const Reducer& reducer, const Traffic& before,
                     Index forward_values, Index backward_values) {
  const bool between_devices = exec.device && reducer.enqueues() && !reducer.alone();
  const double messages =
      between_devices ? 1 : static_cast<double>(reducer.sent().messages - before.messages);
  const auto sum = [messages](Index values) {
    return Cost{0, 0, messages, messages * static_cast<double>(values) * sizeof(double)};
  };
  cost.forward += sum(forward_values);
  cost.backward += sum(backward_values);
}

/// Counts an op. Keeps its backward only if its output has a gradient.
template <class T, class Backward>
void finish(Tape<T>& tape, std::string_view name, const OpCost& cost, bool tracked,
            const Backward& backward) {
  if (tracked)
    tape.record(name, cost.forward, cost.backward, backward);
  else
    tape.record(name, cost.forward, Cost{}, [] {});
}

}  // namespace rossby::detail
