#include "rossby/run/training_options.hpp"

#include <algorithm>
#include <functional>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Momentum b makes updates lag b / (1 - b) updates behind their gradients, and staleness adds to this lag
/// (Mitliagkas et al., "Asynchrony begets momentum", 2016). Returns the momentum that leaves the sum as it
/// was without staleness.
double corrected(double momentum, double staleness) {
  const double lag = std::max(momentum / (1 - momentum) - staleness, 0.0);
  return lag / (1 + lag);
}

}  // namespace

OptimiserOptions optimiser_options(const Config& config) {
  OptimiserOptions options;
  const std::string& name = config.optimiser.name;
  options.kind = name == "adam"    ? OptimiserKind::adam
                 : name == "adamw" ? OptimiserKind::adamw
                                   : OptimiserKind::sgd;
  options.beta1 = config.optimiser.beta1;
  options.beta2 = config.optimiser.beta2;
  options.epsilon = config.optimiser.epsilon;
  options.momentum = config.optimiser.momentum;
  if (config.train.updates == "asynchronous" && config.train.momentum_correction > 0) {
    options.beta1 = corrected(options.beta1, config.train.momentum_correction);
    options.momentum = corrected(options.momentum, config.train.momentum_correction);
  }
  options.absent = config.train.absent == "skip" ? Absent::skip : Absent::zero;
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  options.fuse = config.train.sampling == "slabs";  // pairs touch only a few rows of a relation
  return options;
}

ScheduleOptions schedule_options(const Config& config) {
  ScheduleOptions options;
  const std::string& name = config.schedule.name;
  options.kind = name == "plateau"  ? ScheduleKind::plateau
                 : name == "cosine" ? ScheduleKind::cosine
                 : name == "linear" ? ScheduleKind::linear
                 : name == "step"   ? ScheduleKind::step
                                    : ScheduleKind::constant;
  const double batches =
      static_cast<double>(config.window.batch) / static_cast<double>(config.optimiser.reference_batch);
  const std::string& scaling = config.optimiser.lr_scaling;
  options.lr = scaled_rate(config.optimiser.lr,
                           scaling == "linear" ? RateScaling::linear
                           : scaling == "sqrt" ? RateScaling::sqrt
                                               : RateScaling::none,
                           batches);
  options.epochs = config.schedule.length > 0 ? config.schedule.length : config.train.epochs;
  options.warmup = config.schedule.warmup;
  options.patience = config.schedule.patience;
  options.ratio = config.schedule.ratio;
  options.threshold = config.schedule.threshold;
  options.min_lr = config.schedule.min_lr;
  options.milestones = config.schedule.milestones;
  if (!std::ranges::is_sorted(options.milestones, std::ranges::less_equal{}))
    user_error("schedule.milestones do not ascend. Write ascending numbers like [20, 30, 40]");
  options.hold = config.schedule.hold;
  options.final_share = config.schedule.final;
  return options;
}

bool watches_validation(const Config& config) {
  const bool watches =
      config.train.early_stop > 0 || config.schedule.name == "plateau" || config.train.keep == "best";
  return watches && config.schedule.metric == "validation";
}

TrainerOptions trainer_options(const Config& config, bool has_validation) {
  TrainerOptions options;
  options.epochs = config.train.epochs;
  options.early_stop = config.train.early_stop;
  options.max_seconds = config.train.max_seconds;
  options.validate_every = config.validation.every;
  options.watch_validation = config.schedule.metric == "validation";
  options.clip = config.optimiser.clip;
  options.save_every = config.checkpoint.every_steps;
  options.rollback_lr = config.train.rollback_lr;
  options.check_ops = config.train.check == "ops";
  const std::string& keep = config.train.keep;
  options.keep_best = keep == "best" || (keep == "auto" && has_validation && options.watch_validation);
  if (watches_validation(config) && !has_validation)
    user_error(
        "schedule.metric = \"validation\" has nothing to watch. Set split.validation (steps, a share or a "
        "date) or split.folds (2 or more), or schedule.metric = \"train\"");
  return options;
}

}  // namespace rossby
