#pragma once

#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/row_link.hpp"

namespace rossby {

/// A place in a pipeline of stages, which hold different layers of a model: Huang et al., "GPipe: efficient
/// training of giant neural networks using pipeline parallelism", NeurIPS 2019. Every stage runs the same
/// forward code and skips layers that are not its own; what one stage makes and another one needs goes over.
/// Backward, which runs a stage's records last to first, brings the gradients back.
struct Pipeline {
  RowLink* link = nullptr;     // between the ranks with these rows, by stage
  Reducer* reducer = nullptr;  // over them
  int stages = 1;
  int stage = 0;

  [[nodiscard]] bool on() const { return stages > 1; }
  /// Whether this stage does what belongs to `owner`: all of it where there is no pipeline.
  [[nodiscard]] bool does(int owner) const { return !on() || owner == stage; }
};

/// What stage `from` has made and stage `to` needs, (rows, cols, channels), here where one of them runs: x
/// itself on `from`, its copy on `to`; on other stages nothing. Both call it at the same place in the order
/// of all that they hand over to each other. Its gradient goes back.
template <class T>
[[nodiscard]] Var<T> hand_over(Tape<T>& tape, const Pipeline& pipeline, const Var<T>& x, Index rows,
                               Index cols, Index channels, int from, int to);

}  // namespace rossby
