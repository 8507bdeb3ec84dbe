#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"
#include "rossby/run/profile_units.hpp"

namespace rossby {

/// What the planner says of a candidate, in seconds of each of its ranks.
struct PlannedCost {
  double step = 0, validation = 0;  // 0: it was not asked
  std::string refused;              // why it cannot be trained on this machine; empty: it can
};

/// Plans the candidates that wait, by what `rossby calibrate` has measured (options.machine). Collective.
[[nodiscard]] std::vector<PlannedCost> plan_costs(const Communicator& comm, const ProfileQuestion& question,
                                                  const ProfileState& state, const ProfileOptions& options);

/// The cost of a candidate from its first steps, `ranks` of which trained it, or as it was planned.
void set_cost(ProfiledCandidate& candidate, const Config& config, const UnitResult& measured,
              const PlannedCost& planned, int ranks);

/// The costs of candidates of the same names and steps in another profile (its directory). Collective.
void take_costs_of(const Communicator& comm, const std::string& directory, ProfileState& state);

}  // namespace rossby
