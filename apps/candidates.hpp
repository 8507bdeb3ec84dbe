#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/planning.hpp"

namespace rossby {

/// A way to run a training on the ranks that there are.
struct Candidate {
  int row_blocks = 1;
  int time_groups = 1;
  std::string recompute;              // train.recompute
  std::vector<std::string> settings;  // key=value, behind those of the user
  std::optional<TrainingPlan> plan;   // none: refused
  std::string refused;                // why; also where it is planned but does not fit
  [[nodiscard]] bool fits() const { return plan && refused.empty(); }
};

/// Every process grid of the ranks, and for forecasters of windows every train.recompute, planned. `load`
/// makes a configuration of further settings. Collective.
[[nodiscard]] std::vector<Candidate> plan_candidates(
    const Communicator& comm, const MachineProfile& profile,
    const std::function<Config(const std::vector<std::string>& settings)>& load);

/// The fastest of those that fit, by the time that an epoch takes; null: none fits.
[[nodiscard]] const Candidate* fastest(const std::vector<Candidate>& candidates);

/// A table for the console; the fastest is marked.
[[nodiscard]] std::string text_of(const std::vector<Candidate>& candidates);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates);

}  // namespace rossby
