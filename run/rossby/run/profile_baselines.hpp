#pragma once

#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"

namespace rossby {

/// Returns errors of the classical forecasters in the validation part, or their means over the folds: the
/// RMSE, mean over horizons, as in trainings. Throws UserError if a part has no observed value. Collective.
[[nodiscard]] std::vector<ProfiledBaseline> profile_baselines(const Communicator& comm,
                                                              const ProfileQuestion& question);

}  // namespace rossby
