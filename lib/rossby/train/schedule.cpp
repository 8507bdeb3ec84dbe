#include "rossby/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rossby {

double scaled_rate(double lr, RateScaling scaling, double batches) {
  switch (scaling) {
    case RateScaling::none:
      return lr;
    case RateScaling::linear:
      return lr * batches;
    case RateScaling::sqrt:
      return lr * std::sqrt(batches);
  }
  return lr;
}

double Schedule::rate(Index epoch) const {
  double lr = lr_;
  const double share =
      options_.epochs > 1 ? static_cast<double>(epoch) / static_cast<double>(options_.epochs - 1) : 0;
  if (options_.kind == ScheduleKind::cosine)
    lr = options_.lr * (options_.final_share + (1 - options_.final_share) * 0.5 *
                                                   (1 + std::cos(std::numbers::pi * std::min(share, 1.0))));
  if (options_.kind == ScheduleKind::linear && share > options_.hold)
    lr = options_.lr *
         (1 - (1 - options_.final_share) * std::min((share - options_.hold) / (1 - options_.hold), 1.0));
  if (options_.kind == ScheduleKind::step) {
    for (const Index milestone : options_.milestones)
      if (epoch >= milestone) lr *= options_.ratio;
    lr = std::max(lr, std::min(options_.min_lr, options_.lr));
  }
  if (epoch < options_.warmup)
    lr *= static_cast<double>(epoch + 1) / static_cast<double>(options_.warmup + 1);
  return lr;
}

bool Schedule::observe(double metric, Index epochs) {
  const double threshold = options_.kind == ScheduleKind::plateau ? options_.threshold : 0;
  const bool better = std::isfinite(metric) && (!std::isfinite(best_) || metric < best_ * (1 - threshold));
  if (better) {
    best_ = metric;
    since_best_ = bad_ = 0;
    return true;
  }
  since_best_ += epochs;
  bad_ += epochs;
  if (epochs > 0 && bad_ > options_.patience && options_.kind == ScheduleKind::plateau) {
    lr_ *= options_.ratio;
    ++falls_;
    bad_ = 0;
  }
  return false;
}

void Schedule::restore(const ScheduleState& state) {
  lr_ = options_.lr;
  for (Index fall = 0; fall < state.falls && lr_ > 0; ++fall) lr_ *= options_.ratio;
  falls_ = state.falls;
  best_ = state.best;
  since_best_ = state.since_best;
  bad_ = state.bad;
}

}  // namespace rossby
