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

/// Message spaces, parameter copies and updates of a training with train.updates = "asynchronous", or of a
/// replay of such a training (TrainOptions::replay).
template <class T>
class AsynchronousRun final : public EpochUpdates<T> {
 public:
  /// Returns null if updates are synchronous. Throws UserError if the run cannot be trained so. Collective.
  static std::unique_ptr<AsynchronousRun> make(const Communicator& comm, const Config& config,
                                               const TrainOptions& options, ModelRun<T>& run);

  /// The parameters that the optimiser updates.
  [[nodiscard]] std::span<Parameter<T>* const> parameters() { return masters_.parameters(); }
  /// Makes the trainer train the task by updates of the optimiser. Both must outlive this object.
  void attach(Task<T>& task, Optimiser<T>& optimiser, Trainer<T>& trainer);
  /// Messages and bytes of updates so far, on this rank. Must not be called while updates are under way.
  [[nodiscard]] Traffic sent() const;
  /// Returns a line that says how updates are made.
  [[nodiscard]] std::string remark() const;

  /// Trains the rest of an epoch, and records its updates if the training asks for it.
  unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
               const std::function<void()>& begin) override;
  void send() override { masters_.send(); }
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
  bool elsewhere_ = false;  // not on the row blocks or not on the device of the recording
  MasterParameters<T> masters_;
  ModelRun<T>* run_;
  MpiReducer all_, groups_, blocks_, workers_;
  std::unique_ptr<EpochUpdates<T>> updates_;
  Asynchronous<T>* asynchronous_ = nullptr;  // updates_, unless it is a replay
};

/// Returns why this configuration cannot use asynchronous updates, as a line for an error; empty if it can.
[[nodiscard]] std::string why_not_asynchronous(const Config& config, Index stages);

/// Returns the time groups of the training to be repeated; 0 if none is. Throws UserError on every rank if
/// the recording cannot be read or has other settings. Collective.
[[nodiscard]] Index recorded_groups(const Communicator& comm, const Config& config,
                                    const TrainOptions& options);

/// Returns the counts of one or several epochs, over all ranks.
[[nodiscard]] nlohmann::ordered_json updates_json(const UpdateCounts& counts);
/// Returns the same as a line: "712, of 11.2 windows (deviation 3.1), …".
[[nodiscard]] std::string updates_text(const UpdateCounts& counts);

/// Seconds that a rank sleeps before a step or sub-batch, uniform between these two.
struct GroupSleep {
  double least = 0, most = 0;
  [[nodiscard]] double at(double share) const { return least + share * (most - least); }
};
/// Hook for tests and benchmarks. With ROSSBY_SLOW_GROUPS=*:0.02,1:0.06-0.1 each rank of time group 1 sleeps
/// 0.06 to 0.1 s, and ranks of other groups 0.02 s. Returns 0 if the group is not named.
[[nodiscard]] GroupSleep sleep_of(int group);

}  // namespace rossby
