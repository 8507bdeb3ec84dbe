#pragma once

#include <functional>
#include <vector>

#include "rossby/plan/step_ops.hpp"

namespace rossby {

struct EpochTrafficOptions {
  std::function<Traffic()> sent;     // total, by this rank
  std::function<Traffic()> brought;  // part of it: time steps of other groups
  Index epochs = 1;
};

/// Returns what this rank sends in each of the first epochs of a training. If a task knows the sizes of its
/// batches, one batch of each size is traced, without random flags and with each flag alone. The traffic of
/// time steps that a batch brings is counted batch by batch. Otherwise, all epochs equal the one in `traced`;
/// the result is empty if `traced` is no whole epoch. Computes nothing, as in trace_ops. Collective.
template <class T>
[[nodiscard]] std::vector<EpochTraffic> trace_epochs(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer,
                                                     double clip, const Exec& exec, TimeGroups groups,
                                                     const StepOps& traced,
                                                     const EpochTrafficOptions& options);

}  // namespace rossby
