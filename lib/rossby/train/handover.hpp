#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "rossby/autograd/parameter.hpp"

namespace rossby {

/// Copies of a model's parameters in host memory. The optimiser of asynchronous updates works on the copies
/// while a worker reads the model's own values, which may be on a device.
template <class T>
class MasterParameters {
 public:
  /// Moves the model's parameters to `device`, if it is not null. It must outlive this object.
  explicit MasterParameters(std::span<Parameter<T>* const> model, Device* device = nullptr);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() { return all_; }
  [[nodiscard]] std::span<Parameter<T>* const> model() { return model_; }
  /// The trained parameters of the copies and of the model, in the order of all parameters.
  [[nodiscard]] std::span<Parameter<T>* const> trained() { return trained_; }
  [[nodiscard]] std::span<Parameter<T>* const> trained_of_model() { return trained_of_model_; }
  /// Copies the model's values to the copies and zeroes the gradients of both.
  void take();
  /// Copies the values to the model. With gradients, a caller can look for values that are not finite.
  void give();
  void give_with_gradients();
  /// Copies the model's values, which a caller has changed, to the device; does nothing without one.
  void send();
  /// Copies the model's gradients to `to` (pinned memory, if they come from a device) and zeroes them. They
  /// arrive with the next Device::settle.
  void take_gradients(Buffer<T>& to);

 private:
  void zero_gradients_of_model();

  Device* device_;
  Index trained_size_ = 0;  // of all trained parameters
  std::deque<Parameter<T>> copies_;
  std::vector<Parameter<T>*> all_, trained_, model_, trained_of_model_;
};

/// The newest two versions of the weights. One thread publishes them and another one reads them. A version is
/// the number of updates so far.
template <class T>
class PublishedWeights {
 public:
  /// Publishes `version`, the successor of the newest. Waits while a reader holds the weights.
  void publish(Index version, std::span<Parameter<T>* const> from);

  /// Nothing is published while the lock lives.
  [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  /// Call under `hold`: the newest version, and the values of this version or of the one before. Values for a
  /// device are only enqueued.
  [[nodiscard]] Index newest() const { return newest_; }
  void read(Index version, std::span<Parameter<T>* const> to) const;

 private:
  std::mutex mutex_;
  Index newest_ = -1;
  std::vector<T> values_[2];
};

/// Sums over the targets of a sub-batch that a worker has trained on.
template <class T>
struct FinishedBatch {
  Index batch = 0;    // in the epoch; counts on if a group repeats its batches
  Index version = 0;  // of the weights that the worker read
  Index windows = 0;
  double targets = 0;         // observed targets of all rows
  double loss = 0;            // of this rank's rows
  bool faulty = false;        // an op's values are not finite (OpCheck)
  std::vector<char> in_step;  // of each trained parameter: true if the loss depends on it
  Buffer<T> gradient;         // of all trained parameters, concatenated
};

/// Passes gradients of finished sub-batches (in their order), votes and the wish to stop between a rank's
/// worker and its updates. Both threads may call each function.
template <class T>
class Handover {
 public:
  /// Most sub-batches that wait for an update. If so many wait, the worker waits, too.
  static constexpr std::size_t most_waiting = 32;

  /// State of the worker.
  struct Report {
    Index finished = 0;    // sub-batches handed over so far
    Index progress = 0;    // finished ones and others without targets
    Index in_flight = -1;  // version of the weights in use; −1: none
    bool done = false;     // it begins no further sub-batch
    bool failed = false;   // with an exception
    unsigned votes = 0;
  };

  // Called by the worker.
  [[nodiscard]] FinishedBatch<T> blank();
  void begin(Index version);
  void finish(FinishedBatch<T> batch);
  void skip();
  void vote(unsigned votes);
  void end(bool failed);
  /// True if it may begin another sub-batch: there is room, and the updates are not blocked.
  [[nodiscard]] bool may_begin() const;

  // Called by the updates.
  [[nodiscard]] Report report() const;
  /// Returns the first `count` waiting batches, which stay in place until `drop`.
  [[nodiscard]] std::vector<const FinishedBatch<T>*> first(Index count) const;
  void drop(Index count);
  /// Sets whether updates wait for a gradient that is still computed (train.stale = "wait").
  void block(bool blocked);
  /// Lets the worker begin no further sub-batch.
  void stop();
  [[nodiscard]] bool stops() const;
  /// Waits until the worker's report goes beyond `known`, `seconds` at most.
  void wait_for_worker(const Report& known, double seconds) const;
  /// Lets the worker wait until something may have changed, `seconds` at most.
  void wait_for_updates(double seconds) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable for_updates_, for_worker_;
  std::deque<FinishedBatch<T>> waiting_;
  std::vector<FinishedBatch<T>> spare_;
  Report report_;
  bool blocked_ = false, stops_ = false;
};

}  // namespace rossby
