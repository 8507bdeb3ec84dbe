#include "rossby/run/profile_costs.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/run/planning.hpp"

namespace rossby {
namespace {

/// Plans on the ranks of `comm`.
PlannedCost planned_cost(const Communicator& comm, const Config& config, MeasuredMachine& machine,
                         OnDemand* on_demand) {
  PlannedCost cost;
  try {
    const TrainingPlan plan = plan_training(comm, config, machine, 0, on_demand);
    cost.step = plan.interpolated.step();
    cost.validation = plan.interpolated.validation;
    cost.refused = plan.refused;
  } catch (const UserError& error) {
    cost.refused = error.what();
  }
  return cost;
}

/// Returns rank 0's cost on all ranks.
PlannedCost shared(const Communicator& comm, const PlannedCost& cost) {
  nlohmann::json json{cost.step, cost.validation, cost.refused};
  json = nlohmann::json::parse(broadcast(comm, json.dump()));
  return {json[0].get<double>(), json[1].get<double>(), json[2].get<std::string>()};
}

}  // namespace

std::vector<PlannedCost> plan_costs(const Communicator& comm, const ProfileQuestion& question,
                                    const ProfileState& state, const ProfileOptions& options) {
  std::vector<PlannedCost> costs(state.candidates.size());
  if (options.machine.empty()) return costs;
  MeasuredMachine machine{agree(comm, [&] { return read_profile(options.machine); })};
  OnDemand on_demand{options.machine, seconds_for_candidates, options.prints};
  const Communicator alone = Communicator::self(rank_on_host(comm), ranks_on_host(comm));
  for (std::size_t k = 0; k < costs.size(); ++k) {
    const ProfiledCandidate& one = state.candidates[k];
    if (one.status != ProfiledCandidate::Status::waiting) continue;
    const Config config = agree(comm, [&] { return question.config_of(one, 0); });
    if (one.all_ranks || comm.rank() == 0)
      costs[k] = planned_cost(one.all_ranks ? comm : alone, config, machine,
                              options.measures ? &on_demand : nullptr);
    costs[k] = shared(comm, costs[k]);
  }
  return costs;
}

void set_cost(ProfiledCandidate& candidate, const Config& config, const UnitResult& measured,
              const PlannedCost& planned, int ranks) {
  const bool plans = planned.step > 0;
  const double step = plans ? planned.step : measured.step_seconds;
  const double validation = plans ? planned.validation : measured.validation_seconds;
  candidate.epoch_steps = measured.complete_steps / std::max<Index>(config.train.epochs, 1);
  const Index between = std::max<Index>(candidate.epoch_steps * config.validation.every, 1);
  candidate.cost.steps = measured.complete_steps;
  candidate.cost.step = ranks * (step + validation / static_cast<double>(between));
  candidate.cost.rung = ranks * (validation + (plans ? 0 : measured.first_seconds));
  candidate.cost.start = ranks * measured.start_seconds;
}

void take_costs_of(const Communicator& comm, const std::string& directory, ProfileState& state) {
  const std::string file = profile_file_of(directory);
  const ProfileState other = agree(comm, [&] { return profile_from_text(read_text(file), file); });
  for (ProfiledCandidate& one : state.candidates)
    for (const ProfiledCandidate& known : other.candidates)
      if (known.name == one.name && known.cost.steps == one.cost.steps) one.cost = known.cost;
}

}  // namespace rossby
