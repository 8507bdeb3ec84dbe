#pragma once

#include "rossby/train/config.hpp"
#include "rossby/train/optimiser.hpp"
#include "rossby/train/schedule.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

[[nodiscard]] OptimiserOptions optimiser_options(const Config& config);

/// Returns learning rates by epoch. Throws UserError if schedule.milestones do not ascend.
[[nodiscard]] ScheduleOptions schedule_options(const Config& config);

/// True if the validation part decides when a training ends, its learning rate, or which state it keeps.
[[nodiscard]] bool watches_validation(const Config& config);

/// Throws UserError if the training watches a validation part that does not exist.
[[nodiscard]] TrainerOptions trainer_options(const Config& config, bool has_validation);

}  // namespace rossby
