#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "rossby/train/handover.hpp"
#include "rossby/train/trainer.hpp"
#include "rossby/train/update_round.hpp"

namespace rossby {

/// Asynchronous training of the batches of an epoch. Each time group is a worker: it reads the newest
/// weights, trains on its share of a batch, hands over the gradient and goes on. A thread of each rank makes
/// the updates (UpdateRound), or the worker makes them between its sub-batches (AsynchronousOptions::thread).
///
/// The ranks of a group read one version of the weights, and end after the same sub-batch. `worker` runs on
/// the thread that calls `run`; only that thread uses the ports of the model.
template <class T>
class Asynchronous final : public EpochUpdates<T> {
 public:
  /// `optimiser` updates the masters. `world` sums over all ranks between two runs. All must outlive this
  /// object.
  Asynchronous(const AsynchronousOptions& options, const UpdatePorts& ports, Task<T>& task,
               MasterParameters<T>& masters, Optimiser<T>& optimiser, Reducer& world, const Exec& exec);

  unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
               const std::function<void()>& begin) override;
  void send() override { masters_->send(); }
  [[nodiscard]] const StepSeconds& seconds() const override { return seconds_; }
  /// The fate of this group's sub-batches in the last run (AsynchronousOptions::records).
  [[nodiscard]] const std::vector<UpdateEvent>& events() const { return events_; }

 private:
  /// State of one `run`.
  struct Leg {
    Leg(Asynchronous& of, double lr, Index version, Index most_batches)
        : round(of.options_, of.ports_, *of.masters_, *of.optimiser_, weights, handover, of.update_exec_, lr,
                version, most_batches) {}
    PublishedWeights<T> weights;
    Handover<T> handover;
    UpdateRound<T> round;
    std::exception_ptr error;         // of the updates
    std::atomic<bool> ended = false;  // the updates, with or without error
    Index next = 0;                   // batch of this group
    Index read = -1;                  // version in the model
  };

  void make_updates(Leg& leg) noexcept;
  void turn(Leg& leg, double pause);
  void work(Leg& leg, Tape<T>& tape, const std::function<unsigned()>& vote,
            const std::function<void()>& begin);
  [[nodiscard]] bool all_go_on(Leg& leg, bool stops);
  [[nodiscard]] Index read_weights(Leg& leg);
  [[nodiscard]] FinishedBatch<T> train(Leg& leg, Tape<T>& tape, const std::function<void()>& begin);
  void wait_for_end(Leg& leg, const std::function<unsigned()>& vote);
  void settle(Leg& leg, TrainingState& now);
  void add_counts(const UpdateCounts& mine, UpdateCounts& to);
  void add_moments(Moments mine, Moments& to);

  AsynchronousOptions options_;
  UpdatePorts ports_;
  Task<T>* task_;
  MasterParameters<T>* masters_;
  Optimiser<T>* optimiser_;
  Reducer* world_;
  Exec update_exec_;
  StepSeconds seconds_;
  Moments worker_seconds_;
  std::vector<UpdateEvent> events_;
};

}  // namespace rossby
