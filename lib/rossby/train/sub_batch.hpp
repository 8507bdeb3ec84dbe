#pragma once

#include "rossby/train/handover.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Trains on the share of `group` (Task::record_share_of has named it) in batch `batch.batch` with the
/// model's values, which are of version `batch.version`: fills in the rest, and adds the time to `seconds`.
/// The model's gradients are zero before and after. Collective over the group.
template <class T>
void train_sub_batch(Task<T>& task, MasterParameters<T>& masters, Tape<T>& tape, int group,
                     FinishedBatch<T>& batch, StepSeconds& seconds);

/// Adds what has been trained on to the epoch's mean.
template <class T>
void add_loss(const Task<T>& task, double loss, double targets, TrainingState& now);

/// How far an epoch has come in which the groups have done so many batches (TrainingState::batch).
[[nodiscard]] Index mean_batch(const std::vector<Index>& group_batches, Index batches);

}  // namespace rossby
