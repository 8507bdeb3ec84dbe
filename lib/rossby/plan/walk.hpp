#pragma once

#include "rossby/train/optimiser.hpp"
#include "rossby/train/step.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Runs training steps, epoch by epoch, with a learning rate too small to change anything. Updates cost as
/// much as after many epochs. With a learning rate of zero, missed updates would be replayed one by one,
/// while a training joins several. After each epoch, all late updates of tables are made, as in a training
/// with a validation after each epoch.
template <class T>
class Walk {
 public:
  static constexpr double lr = 1e-12;

  /// All arguments must outlive this object.
  Walk(Task<T>& task, Step<T>& step, Tape<T>& tape, Optimiser<T>& optimiser)
      : task_(&task), step_(&step), tape_(&tape), optimiser_(&optimiser) {
    task.start_epoch(0);
  }
  void next() {
    if (batch_ == task_->batches()) {
      optimiser_->settle(tape_->exec());
      task_->start_epoch(++epoch_);
      batch_ = 0;
    }
    run(batch_++);
  }
  /// Runs a batch of the current epoch.
  void run(Index batch) {
    const auto record = [&](Index part) {
      if (part > 0) return task_->record_part(*tape_, part);
      task_->record(*tape_, batch, count_, losses_);
    };
    (void)step_->run(*tape_, lr, 0, losses_, record, task_->parts());
    ++count_;
  }

 private:
  Task<T>* task_;
  Step<T>* step_;
  Tape<T>* tape_;
  Optimiser<T>* optimiser_;
  Losses losses_;
  Index epoch_ = 0, batch_ = 0, count_ = 0;
};

}  // namespace rossby
