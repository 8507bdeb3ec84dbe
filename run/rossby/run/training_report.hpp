#pragma once

#include <string>

#include "rossby/run/checkpoints.hpp"
#include "rossby/run/training.hpp"

// What `rossby train` prints before and after a training. Rank 0 prints.

namespace rossby {

/// Data, parts, model, ranks, and what of them deserves a warning. `evaluation`: remarks on what evaluate
/// would do, whole lines. Collective.
template <class T>
void describe(const Communicator& comm, ModelRun<T>& run, const Config& config, const std::string& evaluation,
              Reducer& reducer);

/// Where a checkpoint leads to.
template <class T>
void report_resumption(const Communicator& comm, const Config& config, const Checkpoint& checkpoint,
                       const Training<T>& training);

/// What a training came to. `peak`: most memory of a rank, bytes.
template <class T>
void report_end(const Communicator& comm, const Config& config, const Training<T>& training,
                const TrainingResult& result, bool kept_best, double peak, const std::string& run);

}  // namespace rossby
