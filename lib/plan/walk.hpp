#pragma once

#include "rossby/train/step.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Steps of a training with learning rate 0, one after the other, epoch by epoch.
template <class T>
class Walk {
 public:
  /// All outlive it.
  Walk(Task<T>& task, Step<T>& step, Tape<T>& tape) : task_(&task), step_(&step), tape_(&tape) {
    task.start_epoch(0);
  }
  void next() {
    if (batch_ == task_->batches()) {
      task_->start_epoch(++epoch_);
      batch_ = 0;
    }
    run(batch_++);
  }
  /// A batch of the epoch that was started last.
  void run(Index batch) {
    const auto record = [&](Index part) {
      if (part > 0) return task_->record_part(*tape_, part);
      task_->record(*tape_, batch, count_, losses_);
    };
    (void)step_->run(*tape_, 0.0, 0, losses_, record, task_->parts());
    ++count_;
  }

 private:
  Task<T>* task_;
  Step<T>* step_;
  Tape<T>* tape_;
  Losses losses_;
  Index epoch_ = 0, batch_ = 0, count_ = 0;
};

}  // namespace rossby
