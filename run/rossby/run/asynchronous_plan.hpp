#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/plan/asynchronous.hpp"
#include "rossby/run/candidates.hpp"

namespace rossby {

/// What is asked of asynchronous trainings.
struct AsynchronousLimits {
  double target_batch = 0;   // windows of an update, on average; 0: any
  double tolerance = 0.5;    // how far it may be from that, as a share of it
  double max_staleness = 0;  // on average; 0: any
};

/// A candidate whose time groups train asynchronously.
struct AsynchronousCandidate : AsynchronousPlan {
  std::string refused;  // why; empty: it is not
};

/// From the calls of a synchronous plan: a worker takes forward, backward and halos of a step with as many
/// windows, an update takes its sum and the optimiser. Small numbers of sub-batches are simulated, of more
/// the law is taken. Staleness has no limit here (train.max_staleness).
[[nodiscard]] AsynchronousPlan plan_asynchronous(const TrainingPlan& plan, const MachineProfile& profile,
                                                 const Config& config);

[[nodiscard]] std::vector<AsynchronousCandidate> asynchronous_candidates(
    const std::vector<Candidate>& candidates, const MachineProfile& profile, const LoadConfig& load,
    const AsynchronousLimits& limits);

/// The one with the shortest epoch, by its index; −1: none fits.
[[nodiscard]] int fastest(const std::vector<AsynchronousCandidate>& candidates);
/// A table for the console; the fastest is marked. Of the candidates that these are of.
[[nodiscard]] std::string text_of(const std::vector<Candidate>& candidates,
                                  const std::vector<AsynchronousCandidate>& asynchronous);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates,
                                             const std::vector<AsynchronousCandidate>& asynchronous);
[[nodiscard]] nlohmann::ordered_json json_of(const AsynchronousPlan& plan);

}  // namespace rossby
