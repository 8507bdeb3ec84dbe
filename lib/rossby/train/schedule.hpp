#pragma once

#include <limits>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/train/training_state.hpp"

namespace rossby {

enum class ScheduleKind {
  constant,
  plateau,  // × ratio after more than `patience` epochs without improvement, as the reference STNN code
  cosine,   // from 1 to `final_share` over the epochs (Loshchilov, Hutter, ICLR 2017, without restarts)
  linear,   // 1 for the share `hold` of the epochs, then linearly to `final_share`
  step      // × ratio at each of `milestones`, down to min_lr (DCRNN: Li et al., ICLR 2018)
};

/// Scales a rate to another number of windows per step: not at all, × batches (Goyal et al. 2017), × √batches
/// (Krizhevsky 2014).
enum class RateScaling { none, linear, sqrt };

/// Returns the rate for a batch that is `batches` times the batch that `lr` is meant for.
[[nodiscard]] double scaled_rate(double lr, RateScaling scaling, double batches);

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double lr = 3e-3;
  Index epochs = 100;
  Index warmup = 0;                    // epochs of linear rise to the full rate
  Index patience = 10;                 // plateau
  double ratio = 0.1;                  // plateau, step
  double threshold = 1e-4;             // plateau: an improvement is below best · (1 − threshold)
  double min_lr = 1e-5;                // plateau: finished at this rate; step: lower limit
  std::vector<Index> milestones = {};  // step: epochs, counted from 0
  double hold = 0.6;                   // linear
  double final_share = 0.1;            // cosine, linear
};

/// Computes the learning rate of every epoch and tracks whether the metric still improves.
class Schedule {
 public:
  explicit Schedule(const ScheduleOptions& options) : options_(options), lr_(options.lr) {}

  /// Returns the rate of epoch `epoch`, counted from 0.
  [[nodiscard]] double rate(Index epoch) const;

  /// Records the metric; `epochs` have passed since the last call. Smaller is better; NaN and infinity are
  /// never better. Returns true if the metric is the best so far. With `epochs` = 0 the call is out of turn:
  /// it may set a new best, and otherwise changes nothing.
  bool observe(double metric, Index epochs = 1);

  /// True if the plateau schedule's rate has fallen to min_lr.
  [[nodiscard]] bool finished() const {
    return options_.kind == ScheduleKind::plateau && lr_ <= options_.min_lr;
  }
  [[nodiscard]] double best() const { return best_; }
  /// Returns the epochs since the best metric.
  [[nodiscard]] Index since_best() const { return since_best_; }

  /// The state excludes the rate, which follows from the options; these may have changed.
  [[nodiscard]] ScheduleState state() const { return {falls_, best_, since_best_, bad_}; }
  void restore(const ScheduleState& state);

 private:
  ScheduleOptions options_;
  double lr_;
  Index falls_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  Index since_best_ = 0;
  Index bad_ = 0;  // since the best metric or the last fall of the rate
};

}  // namespace rossby
