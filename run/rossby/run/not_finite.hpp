#pragma once

#include <string>

#include "rossby/run/model_run.hpp"

namespace rossby {

/// Names the tensor, rank and (first few) global rows of values that are not finite. Parameters come first,
/// then gradients if `gradients`; of several ranks the lowest. Empty if all values are finite. The same text
/// on every rank. Collective.
template <class T>
[[nodiscard]] std::string describe_not_finite(const Communicator& comm, const ModelRun<T>& run,
                                              bool gradients);

/// Describes the first finding of a check of ops (train.check = "ops"): op, block of the model, rank, global
/// row. If several ranks have one, takes the first in the step. Empty if `check` is null or found nothing.
/// The same text on every rank. Collective.
template <class T>
[[nodiscard]] std::string describe_op(const Communicator& comm, const ModelRun<T>& run,
                                      const OpCheck<T>* check);

}  // namespace rossby
