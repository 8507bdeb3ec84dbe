#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/plan/asynchronous.hpp"
#include "rossby/run/candidates.hpp"
#include "rossby/run/plan_question.hpp"

namespace rossby {

/// A candidate whose time groups train asynchronously.
struct AsynchronousCandidate : AsynchronousPlan {
  std::string refused;  // reason; empty: not refused
};

/// Plans from the calls of a synchronous plan. A worker needs forward, backward and halos of a step with as
/// many windows; an update needs its sum and the optimiser. Few sub-batches are simulated, for many
/// `asynchronous_law` is used. Staleness has no limit here (train.max_staleness).
[[nodiscard]] AsynchronousPlan plan_asynchronous(const TrainingPlan& plan, const MachineProfile& profile,
                                                 const Config& config);

/// Refuses candidates beyond the question's limits of mini-batch and staleness.
[[nodiscard]] std::vector<AsynchronousCandidate> asynchronous_candidates(
    const std::vector<Candidate>& candidates, const MachineProfile& profile, const LoadConfig& load,
    const PlanQuestion& limits);

/// Returns the index of the candidate with the shortest epoch; −1 if none fits.
[[nodiscard]] int fastest(const std::vector<AsynchronousCandidate>& candidates);
/// Returns a table for the console, with the fastest marked. `asynchronous` are variants of `candidates`.
[[nodiscard]] std::string text_of(const std::vector<Candidate>& candidates,
                                  const std::vector<AsynchronousCandidate>& asynchronous);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates,
                                             const std::vector<AsynchronousCandidate>& asynchronous);
/// Returns the asynchronous part of plan.json.
[[nodiscard]] nlohmann::ordered_json json_of(const AsynchronousPlan& plan);
/// Reads it. Throws nlohmann's errors if json_of did not write it.
[[nodiscard]] AsynchronousPlan asynchronous_plan_of(const nlohmann::ordered_json& json);

}  // namespace rossby
