#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "rossby/autograd/parameter.hpp"

namespace rossby {

/// Copies of a model's parameters. The optimiser of asynchronous updates works on them while the model's own
/// values are what a worker reads.
template <class T>
class MasterParameters {
 public:
  explicit MasterParameters(std::span<Parameter<T>* const> model);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() { return all_; }
  [[nodiscard]] std::span<Parameter<T>* const> model() { return model_; }
  /// Those that are trained, in the order of the parameters, of the copies and of the model.
  [[nodiscard]] std::span<Parameter<T>* const> trained() { return trained_; }
  [[nodiscard]] std::span<Parameter<T>* const> trained_of_model() { return trained_of_model_; }
  /// Takes the model's values. The gradients of both are zero then.
  void take();
  /// Gives the model theirs; with gradients, for who looks for what is not finite.
  void give();
  void give_with_gradients();

 private:
  std::deque<Parameter<T>> copies_;
  std::vector<Parameter<T>*> all_, trained_, model_, trained_of_model_;
};

/// The newest two versions of the weights, which one thread publishes and another reads. A version is the
/// number of updates that it has had.
template <class T>
class PublishedWeights {
 public:
  /// Version `version`, which follows the one before; waits while a reader holds the weights.
  void publish(Index version, std::span<Parameter<T>* const> from);

  /// While it lives nothing is published.
  [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  /// Under `hold`: the newest version, and its values or those of the version before.
  [[nodiscard]] Index newest() const { return newest_; }
  void read(Index version, std::span<Parameter<T>* const> to) const;

 private:
  std::mutex mutex_;
  Index newest_ = -1;
  std::vector<T> values_[2];
};

/// A sub-batch that a worker has trained on: the sums over its targets.
template <class T>
struct FinishedBatch {
  Index batch = 0;    // of the epoch, counted on where a group repeats its batches
  Index version = 0;  // of the weights that it read
  Index windows = 0;
  double targets = 0;         // observed ones, of all rows
  double loss = 0;            // of this rank's rows
  bool faulty = false;        // an op's values are not finite (OpCheck)
  std::vector<char> in_step;  // of each trained parameter: whether the loss depended on it
  std::vector<T> gradient;    // of all trained parameters, one after the other
};

/// What the worker of a rank and its updates hand each other: gradients of finished sub-batches in their
/// order, votes, and when to stop. Each function may be called by either thread.
template <class T>
class Handover {
 public:
  /// Sub-batches that wait for an update at most: the worker then waits, too.
  static constexpr std::size_t most_waiting = 32;

  /// What the worker says.
  struct Report {
    Index finished = 0;    // sub-batches so far, handed over
    Index progress = 0;    // those, and others that had nothing to train on
    Index in_flight = -1;  // version that it computes with; −1: none
    bool done = false;     // it begins no further one
    bool failed = false;   // by an exception
    unsigned votes = 0;
  };

  // The worker.
  [[nodiscard]] FinishedBatch<T> blank();
  void begin(Index version);
  void finish(FinishedBatch<T> batch);
  void skip();
  void vote(unsigned votes);
  void end(bool failed);
  /// Whether it may begin another one: there is room, and updates do not wait for others.
  [[nodiscard]] bool may_begin() const;

  // The updates.
  [[nodiscard]] Report report() const;
  /// The first `count` batches that wait, which stay where they are until `drop`.
  [[nodiscard]] std::vector<const FinishedBatch<T>*> first(Index count) const;
  void drop(Index count);
  /// Whether updates wait for a gradient that is still computed (train.stale = "wait").
  void block(bool blocked);
  /// No further sub-batch is begun.
  void stop();
  [[nodiscard]] bool stops() const;
  /// Until the worker says more than `known`, `seconds` at most.
  void wait_for_worker(const Report& known, double seconds) const;
  /// The worker waits until something may have changed, `seconds` at most.
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
