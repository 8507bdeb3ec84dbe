#pragma once

#include <string_view>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/tape.hpp"

// Inside of lib/rossby/autograd: what the definitions of ops share.

namespace rossby::detail {

template <class T>
NodeView<const T> read(const NodeView<T>& view) {
  return view;
}

template <class T>
double count(const Var<T>& x) {
  return static_cast<double>(x.value.size());
}

/// Of one message.
inline Cost message_cost(Index values, std::size_t word) {
  return {0, 0, 1, static_cast<double>(values) * static_cast<double>(word)};
}

/// Counts an op; keeps its backward only where its output has a gradient to pass on.
template <class T, class Backward>
void finish(Tape<T>& tape, std::string_view name, const OpCost& cost, bool tracked,
            const Backward& backward) {
  if (tracked)
    tape.record(name, cost.forward, cost.backward, backward);
  else
    tape.record(name, cost.forward, Cost{}, [] {});
}

}  // namespace rossby::detail
