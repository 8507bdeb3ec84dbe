#pragma once

#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/row_link.hpp"

namespace rossby {

/// A place in a pipeline of stages that hold different layers of a model: Huang et al., "GPipe: efficient
/// training of giant neural networks using pipeline parallelism", NeurIPS 2019. Every stage runs the same
/// forward code and skips other stages' layers. Values that another stage needs are sent to it. Backward runs
/// a stage's records in reverse order and returns the gradients.
struct Pipeline {
  RowLink* link = nullptr;     // connects the ranks with these rows, by stage
  Reducer* reducer = nullptr;  // sums over those ranks
  int stages = 1;
  int stage = 0;

  [[nodiscard]] bool on() const { return stages > 1; }
  /// True if this stage does the work of `owner`, or if there is no pipeline.
  [[nodiscard]] bool does(int owner) const { return !on() || owner == stage; }
};

/// Passes a (rows, cols, channels) value from stage `from` to stage `to`. Returns x itself on `from`, its
/// copy on `to`, and nothing on other stages. Both stages must call it in the same order. Backward returns
/// the gradient.
template <class T>
[[nodiscard]] Var<T> hand_over(Tape<T>& tape, const Pipeline& pipeline, const Var<T>& x, Index rows,
                               Index cols, Index channels, int from, int to);

}  // namespace rossby
