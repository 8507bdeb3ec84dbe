#pragma once

#include <optional>
#include <string>

#include "rossby/run/plan_check.hpp"

// Compares predictions of asynchronous updates with measurements.

namespace rossby {

/// Returns the updates that a run's metrics.jsonl reports for the ranks that it ended on; nullopt if no such
/// epoch is there. Mini-batches and staleness are of all epochs, seconds of the median epoch. The first epoch
/// is left out if there are others. Mini-batches count sub-batches of `windows` windows.
[[nodiscard]] std::optional<AsynchronousPlan> measured_asynchronous(const std::string& metrics_file,
                                                                    double windows);

/// "X ms a sub-batch, Y ms an update, of N windows, staleness S; Z an epoch".
[[nodiscard]] std::string text_of(const AsynchronousPlan& plan);

/// Returns a line for each run with asynchronous updates, then mean errors; empty if there is no such run.
/// Total variation (TV) is half the sum of absolute differences of the shares.
[[nodiscard]] std::string asynchronous_table(const CheckedRuns& all);

}  // namespace rossby
