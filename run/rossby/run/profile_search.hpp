#pragma once

#include <vector>

#include "rossby/run/profile_state.hpp"

namespace rossby {

/// What a profile may cost: a share of the complete trainings, or a time in seconds (share 0).
struct ProfileBudget {
  double share = 0, seconds = 0;
};

/// Places of the candidates that are still in the search, in their order.
[[nodiscard]] std::vector<Index> searched(const ProfileState& state);

/// Throws UserError with the reason of the first candidate if none can be trained.
void expect_any_candidate(const ProfileState& state);

/// What a part of a candidate's training on one fold takes, as the budget counts it.
[[nodiscard]] double unit_cost(const ProfileState& state, const ProfiledCandidate& one, Index from, Index to);

/// Steps that a candidate is trained for on the rung that comes next.
[[nodiscard]] Index next_target(const ProfileState& state, const ProfiledCandidate& one);

/// Fixes the rungs by the costs of the candidates, which were tried. Throws UserError if the budget does not
/// reach for `trial_steps` of each.
void plan_search(ProfileState& state, const ProfileBudget& budget);

/// After a rung, of which the errors are predicted: who goes on to the next one, or why the search is over.
void decide(ProfileState& state);

}  // namespace rossby
