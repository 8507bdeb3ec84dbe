#pragma once

#include "benchmarks/machine.hpp"
#include "benchmarks/step_problem.hpp"

namespace rossby::bench {

/// Returns the minimum work of one training step of a pass on this rank (docs/benchmarks/index.md):
/// - the ops as counted by the tape (`ops`, per step), without the relation layer and the L1 norm of its
///   weights;
/// - the relation layer: every weight is read once forward and once backward, and node data once. Dense
///   learned weights are not counted in backward, because the optimiser's pass reads them anyway (their L1
///   norm and its gradient need no further pass);
/// - the optimiser: θ, v and, with momentum, m of the values that the step touches, read and written. Other
///   values can be updated later in closed form.
template <class T>
[[nodiscard]] Work step_work(const StepProblem<T>& problem, Pass pass, const Cost& ops);

}  // namespace rossby::bench
