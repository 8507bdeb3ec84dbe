#pragma once

#include <string>

#include "rossby/run/checkpoints.hpp"
#include "rossby/run/training.hpp"

// Prints on rank 0 what `rossby train` says before and after a training.

namespace rossby {

/// Describes data, parts, model and ranks, with warnings. `evaluation`: remarks on what evaluate would do,
/// whole lines. Collective.
template <class T>
void describe(const Communicator& comm, ModelRun<T>& run, const Config& config, const std::string& evaluation,
              Reducer& reducer);

/// Reports the step from which a training goes on, and changes of learning.
template <class T>
void report_resumption(const Communicator& comm, const Config& config, const Checkpoint& checkpoint,
                       const Training<T>& training);

/// Reports how a training ended. `peak`: most memory of a rank, in bytes. `validation_seen`: false if no
/// target of the validation part is observed.
template <class T>
void report_end(const Communicator& comm, const Config& config, const Training<T>& training,
                const TrainingResult& result, bool kept_best, bool validation_seen, double peak,
                const std::string& run);

}  // namespace rossby
