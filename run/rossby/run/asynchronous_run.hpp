#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/train.hpp"
#include "rossby/train/asynchronous.hpp"
#include "rossby/train/update_log.hpp"

namespace rossby {

/// Message spaces, copies of the parameters and updates of a training with train.updates = "asynchronous", or
/// of one that repeats such a training (TrainOptions::replay).
template <class T>
class AsynchronousRun final : public EpochUpdates<T> {
 public:
  /// Null: updates are synchronous. Throws UserError if the run cannot be trained so. Collective.
  static std::unique_ptr<AsynchronousRun> make(const Communicator& comm, const Config& config,
                                               const TrainOptions& options, ModelRun<T>& run);

  /// What the optimiser works on.
  [[nodiscard]] std::span<Parameter<T>* const> parameters() { return masters_.parameters(); }
  /// Has the trainer train the task by updates of the optimiser. They outlive this.
  void attach(Task<T>& task, Optimiser<T>& optimiser, Trainer<T>& trainer);
  /// By updates so far, on this rank. Not while they are under way.
  [[nodiscard]] Traffic sent() const;
  /// A line on how updates are made.
  [[nodiscard]] std::string remark() const;

  /// Writes down what updates took, where that is asked for.
  unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
               const std::function<void()>& begin) override;
  [[nodiscard]] const StepSeconds& seconds() const override { return updates_->seconds(); }

 private:
  AsynchronousRun(const Communicator& comm, const Config& config, const TrainOptions& options,
                  ModelRun<T>& run);
  void write(UpdateLeg leg, const std::vector<UpdateEvent>& events) const;

  Communicator comm_;
  AsynchronousOptions options_;
  std::string record_, head_;
  std::vector<UpdateLeg> replayed_;
  bool replays_;
  bool other_blocks_ = false;  // than those of the recording
  MasterParameters<T> masters_;
  ModelRun<T>* run_;
  MpiReducer all_, groups_, blocks_, workers_;
  std::unique_ptr<EpochUpdates<T>> updates_;
  Asynchronous<T>* asynchronous_ = nullptr;  // updates_, unless they are repeated
};

/// What asynchronous updates are not for: a line for an error; empty: they can train this.
[[nodiscard]] std::string why_not_asynchronous(const Config& config, Index stages);

/// Time groups of the training that is to be repeated; 0: none is. Throws UserError on every rank where the
/// recording cannot be read, or is of other settings. Collective.
[[nodiscard]] Index recorded_groups(const Communicator& comm, const Config& config,
                                    const TrainOptions& options);

/// Of an epoch or of several; all ranks together.
[[nodiscard]] nlohmann::ordered_json updates_json(const UpdateCounts& counts);
/// The same as a line: "712, of 11.2 windows (deviation 3.1), …".
[[nodiscard]] std::string updates_text(const UpdateCounts& counts);

/// Seconds that a rank sleeps before a step or sub-batch: any between these, equally likely.
struct GroupSleep {
  double least = 0, most = 0;
  [[nodiscard]] double at(double share) const { return least + share * (most - least); }
};
/// A hook of tests and benchmarks: ROSSBY_SLOW_GROUPS=*:0.02,1:0.06-0.1 has each rank of time group 1 sleep
/// 0.06 to 0.1 s, and those of the others 0.02 s. 0: the group is not named.
[[nodiscard]] GroupSleep sleep_of(int group);

}  // namespace rossby
