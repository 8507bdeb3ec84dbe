#pragma once

#include <string>

#include "rossby/data/split.hpp"
#include "rossby/run/evaluation_report.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/stnn_task.hpp"

namespace rossby {

/// How many steps a forecaster can be asked for; what puts it so.
struct ScoredReach {
  Index steps = 0;  // 0: any number
  std::string why = {};
};

[[nodiscard]] ScoredReach reach_of(const Config& config);

/// evaluate.horizons, or as many as the forecaster puts out.
[[nodiscard]] Index horizons_of(const Config& config, const ScoredReach& reach);

/// The forecasts of the test part that `evaluate` scores. Throws UserError if there is no test part, or if a
/// forecaster does not reach the end of a rollout over it.
[[nodiscard]] TestForecasts test_of(const Config& config, const ScoredReach& reach, const Split& split);

/// One rollout over the test part. Throws UserError as above.
[[nodiscard]] Rollout rollout_of(const ScoredReach& reach, const Split& split);

}  // namespace rossby
