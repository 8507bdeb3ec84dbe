#pragma once

#include <functional>
#include <vector>

#include "rossby/plan/step_ops.hpp"

namespace rossby {

struct EpochTrafficOptions {
  std::function<Traffic()> sent;     // so far, by this rank
  std::function<Traffic()> brought;  // of it: time steps of other groups
  Index epochs = 1;
};

/// What this rank sends in each of the first epochs of a training. Where a task tells sizes of its batches,
/// one batch of each is traced, with nothing drawn and with each flag alone; what a batch brings is counted
/// batch by batch. Otherwise all epochs are taken to be as the one that `traced` tells of; empty where that
/// is not whole. Nothing is computed, as in trace_ops. Collective.
template <class T>
[[nodiscard]] std::vector<EpochTraffic> trace_epochs(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer,
                                                     double clip, const Exec& exec, TimeGroups groups,
                                                     const StepOps& traced,
                                                     const EpochTrafficOptions& options);

}  // namespace rossby
