#pragma once

#include <string>

#include "rossby/run/model_run.hpp"

namespace rossby {

/// Which tensor holds numbers that are not finite, on which rank, in which global rows (the first few):
/// parameters first, then, where `gradients`, gradients. Where several ranks have some, the lowest one's
/// first. Empty where all are finite. The same text on every rank. Collective.
template <class T>
[[nodiscard]] std::string describe_not_finite(const Communicator& comm, const ModelRun<T>& run,
                                              bool gradients);

/// What a check of ops found first (train.check = "ops"): op, block of the model, rank, global row. Of
/// several ranks, that which comes first in the step. Empty where `check` is null or has found nothing. The
/// same text on every rank. Collective.
template <class T>
[[nodiscard]] std::string describe_op(const Communicator& comm, const ModelRun<T>& run,
                                      const OpCheck<T>* check);

}  // namespace rossby
