#pragma once

#include <vector>

#include "rossby/run/profile_state.hpp"

namespace rossby {

/// The budget of a profile: a share of the complete trainings, or a time in seconds (share 0).
struct ProfileBudget {
  double share = 0, seconds = 0;
};

/// Returns the indices of the candidates that are still in the search, in their order.
[[nodiscard]] std::vector<Index> searched(const ProfileState& state);

/// Throws UserError with the reason of the first candidate if none can be trained.
void expect_any_candidate(const ProfileState& state);

/// Returns the cost of a part of a candidate's training on one fold, as the budget counts it.
[[nodiscard]] double unit_cost(const ProfileState& state, const ProfiledCandidate& one, Index from, Index to);

/// Returns the number of steps to which the next rung trains a candidate.
[[nodiscard]] Index next_target(const ProfileState& state, const ProfiledCandidate& one);

/// Plans the rungs from the costs of the tried candidates. Throws UserError if the budget is too small for
/// `trial_steps` of each.
void plan_search(ProfileState& state, const ProfileBudget& budget);

/// Decides, after the errors of a rung are predicted, who goes on to the next one, or why the search is over.
void decide(ProfileState& state);

}  // namespace rossby
