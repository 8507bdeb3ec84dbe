#pragma once

#include "rossby/train/handover.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Trains on the share of `group` (set by Task::record_share_of) in batch `batch.batch`. The model's values
/// are of version `batch.version`. Fills in the other members of `batch` and adds the time to `seconds`. The
/// model's gradients are zero before and after. Collective over the group.
template <class T>
void train_sub_batch(Task<T>& task, MasterParameters<T>& masters, Tape<T>& tape, int group,
                     FinishedBatch<T>& batch, StepSeconds& seconds);

/// Adds a trained sub-batch to the epoch's mean.
template <class T>
void add_loss(const Task<T>& task, double loss, double targets, TrainingState& now);

/// Returns the progress of an epoch (TrainingState::batch) after these numbers of batches of the groups.
[[nodiscard]] Index mean_batch(const std::vector<Index>& group_batches, Index batches);

}  // namespace rossby
