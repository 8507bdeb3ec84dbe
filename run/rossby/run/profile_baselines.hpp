#pragma once

#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"

namespace rossby {

/// Errors of the classical forecasters in the validation part, or their means over the folds: RMSE, mean over
/// horizons, as trainings have it. Throws UserError if the part of a fold has no observed value. Collective.
[[nodiscard]] std::vector<ProfiledBaseline> profile_baselines(const Communicator& comm,
                                                              const ProfileQuestion& question);

}  // namespace rossby
