#pragma once

#include <limits>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/train/training_state.hpp"

namespace rossby {

enum class ScheduleKind {
  constant,
  plateau,  // × ratio after more than `patience` epochs without better, as the reference STNN code
  cosine,   // from 1 to `final_share` over the epochs (Loshchilov, Hutter, ICLR 2017, without restarts)
  linear,   // 1 for the share `hold` of the epochs, then linearly to `final_share`
  step      // × ratio from every one of `milestones` on, down to min_lr (DCRNN: Li et al., ICLR 2018)
};

/// What becomes of rates that are for another number of windows a step: nothing, × batches (Goyal et al.
/// 2017), × √batches (Krizhevsky 2014).
enum class RateScaling { none, linear, sqrt };

/// The rate for batches that are `batches` times those that `lr` is for.
[[nodiscard]] double scaled_rate(double lr, RateScaling scaling, double batches);

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double lr = 3e-3;
  Index epochs = 100;
  Index warmup = 0;                    // epochs of linear rise to the full rate
  Index patience = 10;                 // plateau
  double ratio = 0.1;                  // plateau, step
  double threshold = 1e-4;             // plateau: better means below best · (1 − threshold)
  double min_lr = 1e-5;                // plateau: finished when the rate falls to this; step: no further
  std::vector<Index> milestones = {};  // step: epochs, counted from 0
  double hold = 0.6;                   // linear
  double final_share = 0.1;            // cosine, linear
};

/// The learning rate of every epoch, and whether training still gets better.
class Schedule {
 public:
  explicit Schedule(const ScheduleOptions& options) : options_(options), lr_(options.lr) {}

  /// Rate of epoch `epoch`, counted from 0.
  [[nodiscard]] double rate(Index epoch) const;

  /// Tells the metric after so many epochs since it was told last (smaller is better; NaN and infinity are
  /// never better). True where it is the best. 0: one that is told out of turn, which may be the best, and
  /// otherwise changes nothing.
  bool observe(double metric, Index epochs = 1);

  /// Plateau: the rate has fallen to min_lr.
  [[nodiscard]] bool finished() const {
    return options_.kind == ScheduleKind::plateau && lr_ <= options_.min_lr;
  }
  [[nodiscard]] double best() const { return best_; }
  /// Epochs since the last best one.
  [[nodiscard]] Index since_best() const { return since_best_; }

  /// The rate itself is not in it: it follows from the options, which may ask for another one by now.
  [[nodiscard]] ScheduleState state() const { return {falls_, best_, since_best_, bad_}; }
  void restore(const ScheduleState& state);

 private:
  ScheduleOptions options_;
  double lr_;
  Index falls_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  Index since_best_ = 0;
  Index bad_ = 0;  // since the last best one or the last fall of the rate
};

}  // namespace rossby
