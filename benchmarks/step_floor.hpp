#pragma once

#include "benchmarks/machine.hpp"
#include "benchmarks/step_problem.hpp"

namespace rossby::bench {

/// What one training step of a pass cannot avoid on this rank (docs/benchmarks/index.md):
///   - the ops as the tape counted them (`ops`, a step), without the relation layer and the L1 norm of its
///   weights;
///   - the relation layer: every weight read once forward and once backward, dense learned ones not in
///   backward, where
///     the optimiser's pass reads them anyway (their L1 norm and its gradient cost no pass more); node data
///     once;
///   - the optimiser: θ, v and, with momentum, m of what the step touches, read and written. Values that it
///   does not
///     touch can be caught up with later in closed form.
template <class T>
[[nodiscard]] Work step_work(const StepProblem<T>& problem, Pass pass, const Cost& ops);

}  // namespace rossby::bench
