#pragma once

#include <memory>
#include <span>
#include <vector>

#include "benchmarks/ranks.hpp"
#include "benchmarks/step_case.hpp"
#include "benchmarks/timed_ports.hpp"
#include "rossby/autograd/staged_ports.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/train/optimiser.hpp"
#include "rossby/train/step.hpp"
#include "rossby/train/stnn_task.hpp"

namespace rossby::bench {

/// Seconds of the parts of one training step.
struct StepTime {
  double total = 0;
  double forward = 0;  // choosing the batch and recording its losses
  double backward = 0;
  double allreduce = 0;  // the step's one fused reduction
  double optimiser = 0;
  double exchange = 0;  // within forward and backward: packing, starting, waiting for ghosts
};

/// The STNN of a case on this rank with all objects of a training step, built as in the program: synthetic
/// data in place, relations, exchange, model, task, optimiser, step.
template <class T>
class StepProblem {
 public:
  /// Collective.
  StepProblem(const StepCase& item, Ranks& ranks, const Exec& exec);

  [[nodiscard]] Index batches(Pass pass) const;
  void start_epoch(Index epoch) { task_->start_epoch(epoch); }
  /// Makes late updates, as the program does before validation.
  void settle() { optimiser_->settle(tape_.exec()); }
  /// Runs one training step on batch `index` of a pass. Returns its loss. Collective.
  double run(Pass pass, Index index, StepTime& time);
  /// Returns the seconds of the first `count` batches of a pass on a device, run ahead of it where possible,
  /// as in training. All later steps also run ahead. Collective.
  double run_ahead(Pass pass, Index count);

  [[nodiscard]] const StepCase& item() const { return item_; }
  [[nodiscard]] const RelationBank<T>& bank() const { return model_->relations().bank(); }
  [[nodiscard]] std::span<Parameter<T>* const> parameters() const { return model_->parameters(); }
  [[nodiscard]] Tape<T>& tape() { return tape_; }
  /// Total bytes of streamed relations sent to the device and back.
  struct Travelled {
    double in = 0, out = 0;
  };
  [[nodiscard]] Travelled travelled() const;
  [[nodiscard]] Traffic exchanged() const { return exchange_->sent(); }
  [[nodiscard]] Traffic reduced() const { return reducer_.sent(); }
  [[nodiscard]] Reducer& reducer() { return reducer_; }

 private:
  StepCase item_;
  TimedReducer reducer_;
  RowPartition partition_;
  int part_;
  Series series_;
  Split split_;
  Scaler scaler_;
  std::unique_ptr<TimedExchange> exchange_;
  std::unique_ptr<StagedExchange> staged_exchange_;  // only if the model is on a device
  std::unique_ptr<StagedReducer> staged_reducer_;
  std::vector<Device::Copy> kept_;
  std::unique_ptr<Stnn<T>> model_;
  std::unique_ptr<StnnTask<T>> task_;
  std::unique_ptr<Optimiser<T>> optimiser_;
  std::unique_ptr<Step<T>> step_;
  Tape<T> tape_;
  Losses losses_;
  Index steps_done_ = 0;
};

}  // namespace rossby::bench
