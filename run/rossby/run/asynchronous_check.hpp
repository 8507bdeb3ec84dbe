#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "rossby/run/plan_check.hpp"

// Predictions of asynchronous updates beside what was measured.

namespace rossby {

/// That of plan.json. Throws nlohmann's errors if it is not as json_of writes it.
[[nodiscard]] AsynchronousPlan asynchronous_plan_of(const nlohmann::ordered_json& json);

/// What a run's metrics.jsonl says of its updates on the ranks that it ended on: mini-batch and staleness of
/// all epochs, the seconds of the median one; the first is left out if there are others. `windows` of a
/// sub-batch turn mini-batches into sub-batches. None: there is no such epoch.
[[nodiscard]] std::optional<AsynchronousPlan> measured_asynchronous(const std::string& metrics_file,
                                                                    double windows);

/// "X ms a sub-batch, Y ms an update, of N windows, staleness S; Z an epoch".
[[nodiscard]] std::string text_of(const AsynchronousPlan& plan);

/// A line a run with asynchronous updates, then mean errors; empty: there is none. Total variation (TV) is
/// half the sum of absolute differences of the shares.
[[nodiscard]] std::string asynchronous_table(const CheckedRuns& all);

}  // namespace rossby
