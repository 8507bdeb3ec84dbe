#pragma once

#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// Sums of a forecaster's squared errors at each origin, (horizons, origins), over all nodes and features.
struct OriginErrors {
  Index horizons = 0;
  Index origins = 0;
  std::vector<double> squares;
  std::vector<double> count;  // observed targets; the same for all forecasters
};

/// Skill of a model against one baseline on the same origins.
struct PairedSkill {
  double skill = 0;          // 1 − mean RMSE of the model / mean RMSE of the baseline, means over horizons
  double low = 0, high = 0;  // 95 % interval of the skill
  Index block = 0;           // origins in a block of the bootstrap

  /// True if the interval holds 0, so that neither forecaster is better for certain.
  [[nodiscard]] bool tie() const { return !(low > 0 || high < 0); }
};

/// Computes the skill and its interval. The interval comes from a circular block bootstrap of the origins
/// (Politis, Romano, "A circular block-resampling procedure for stationary data", 1992), with 2000 resamples
/// and a fixed seed. Forecasts from neighbouring origins have similar errors. A block therefore has as many
/// origins as there are horizons, or more up to the lag where the autocorrelation of the difference in
/// squared errors first falls to 0, and at most a quarter of all origins. Returns NaN if there are fewer than
/// 8 origins or no horizon has targets.
[[nodiscard]] PairedSkill paired_skill(const OriginErrors& model, const OriginErrors& baseline);
/// The same at horizon 1, 2, … alone. Blocks have at least as many origins as that horizon.
[[nodiscard]] PairedSkill paired_skill_at(Index horizon, const OriginErrors& model,
                                          const OriginErrors& baseline);

}  // namespace rossby
