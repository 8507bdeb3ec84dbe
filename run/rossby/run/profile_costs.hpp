#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"
#include "rossby/run/profile_units.hpp"

namespace rossby {

/// The planned cost of a candidate, in seconds of each of its ranks.
struct PlannedCost {
  double step = 0, validation = 0;  // 0: not planned
  std::string refused;              // why this machine cannot train it; empty: it can
};

/// Plans waiting candidates from the measurements of `rossby calibrate` (options.machine). Collective.
[[nodiscard]] std::vector<PlannedCost> plan_costs(const Communicator& comm, const ProfileQuestion& question,
                                                  const ProfileState& state, const ProfileOptions& options);

/// Sets the cost of a candidate from its first steps on `ranks` ranks, or as planned.
void set_cost(ProfiledCandidate& candidate, const Config& config, const UnitResult& measured,
              const PlannedCost& planned, int ranks);

/// Takes the costs of candidates with the same names and steps from another profile's directory. Collective.
void take_costs_of(const Communicator& comm, const std::string& directory, ProfileState& state);

}  // namespace rossby
