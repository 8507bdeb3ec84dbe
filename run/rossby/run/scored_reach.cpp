#include "rossby/run/scored_reach.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby {

ScoredReach reach_of(const Config& config) {
  if (!config.windows()) return {};
  return {config.window.outputs,
          fmt::format("the model forecasts window.outputs = {}", config.window.outputs)};
}

Rollout rollout_of(const ScoredReach& reach, const Split& split) {
  Rollout rollout = rollout_over(split.test);
  if (reach.steps > 0 && rollout.horizons > reach.steps)
    user_error(
        "evaluate.kind = \"rollout\" needs one forecast over the whole test part, {} steps, but {}. Set "
        "evaluate.kind = \"origins\"",
        rollout.horizons, reach.why);
  return rollout;
}

Index horizons_of(const Config& config, const ScoredReach& reach) {
  const Index horizons = config.evaluate.horizons;
  return reach.steps > 0 ? std::min(horizons, reach.steps) : horizons;
}

TestForecasts test_of(const Config& config, const ScoredReach& reach, const Split& split) {
  if (config.evaluate.kind == "rollout") {
    if (split.test.size() < 1)
      user_error(
          "evaluate: there is no test part. Choose one with --set "
          "split.test=PART (steps, a share, a date or \"rest\")");
    Rollout rollout = rollout_of(reach, split);
    return {std::move(rollout.origins), rollout.horizons};
  }
  const Index horizons = horizons_of(config, reach);
  return {split.test_origins(horizons, config.evaluate.first_origin, config.evaluate.last_origin), horizons};
}

}  // namespace rossby
