#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/plan/asynchronous.hpp"
#include "rossby/run/candidates.hpp"

namespace rossby {

/// Limits for asynchronous trainings.
struct AsynchronousLimits {
  double target_batch = 0;   // windows of an update, mean; 0: any
  double tolerance = 0.5;    // largest relative difference from target_batch
  double max_staleness = 0;  // mean; 0: any
};

/// A candidate whose time groups train asynchronously.
struct AsynchronousCandidate : AsynchronousPlan {
  std::string refused;  // reason; empty: not refused
};

/// Plans from the calls of a synchronous plan. A worker needs forward, backward and halos of a step with as
/// many windows; an update needs its sum and the optimiser. Few sub-batches are simulated, for many
/// `asynchronous_law` is used. Staleness has no limit here (train.max_staleness).
[[nodiscard]] AsynchronousPlan plan_asynchronous(const TrainingPlan& plan, const MachineProfile& profile,
                                                 const Config& config);

[[nodiscard]] std::vector<AsynchronousCandidate> asynchronous_candidates(
    const std::vector<Candidate>& candidates, const MachineProfile& profile, const LoadConfig& load,
    const AsynchronousLimits& limits);

/// Returns the index of the candidate with the shortest epoch; −1 if none fits.
[[nodiscard]] int fastest(const std::vector<AsynchronousCandidate>& candidates);
/// Returns a table for the console, with the fastest marked. `asynchronous` are variants of `candidates`.
[[nodiscard]] std::string text_of(const std::vector<Candidate>& candidates,
                                  const std::vector<AsynchronousCandidate>& asynchronous);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates,
                                             const std::vector<AsynchronousCandidate>& asynchronous);
[[nodiscard]] nlohmann::ordered_json json_of(const AsynchronousPlan& plan);

}  // namespace rossby
