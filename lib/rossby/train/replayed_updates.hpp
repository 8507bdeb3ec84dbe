#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "rossby/train/sub_batch.hpp"
#include "rossby/train/update_log.hpp"
#include "rossby/train/update_round.hpp"

namespace rossby {

/// Repeats recorded asynchronous updates, one after the other: the sub-batches that each took, with the
/// versions of the weights that they read, summed in the same order. The weights are equal to the bit to
/// those of the recorded training at the same row blocks, on any number of time groups: each of them trains
/// for some of the recorded ones. At other row blocks they differ by the order of sums.
template <class T>
class ReplayedUpdates final : public EpochUpdates<T> {
 public:
  /// Of the options, `rate` and `clip` count. `optimiser` is that of the masters. All outlive this.
  ReplayedUpdates(const AsynchronousOptions& options, const UpdatePorts& ports, std::vector<UpdateLeg> legs,
                  Task<T>& task, MasterParameters<T>& masters, Optimiser<T>& optimiser, const Exec& exec);

  /// One leg: votes are heeded at its end, because nothing is under way there. Throws UserError if the
  /// recording has none that begins here.
  unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
               const std::function<void()>& begin) override;
  [[nodiscard]] const StepSeconds& seconds() const override { return seconds_; }

 private:
  [[nodiscard]] const UpdateLeg& leg_at(const TrainingState& now) const;
  void make(Index update, Tape<T>& tape, double lr, unsigned& votes, TrainingState& now);
  struct Taken {
    Index windows = 0;
    double targets = 0;
  };
  [[nodiscard]] bool count(std::size_t worker, Index update, Taken& taken, TrainingState& now) const;
  [[nodiscard]] Taken sum(Index update, Tape<T>& tape, TrainingState& now);
  [[nodiscard]] bool is_mine(std::size_t worker) const;
  void train(std::size_t worker, Index update, Tape<T>& tape);
  void read(Index version);
  void keep_version();

  AsynchronousOptions options_;
  UpdatePorts ports_;
  std::vector<UpdateLeg> legs_;
  Task<T>* task_;
  MasterParameters<T>* masters_;
  Optimiser<T>* optimiser_;
  Exec exec_;
  StepSeconds seconds_;

  const UpdateLeg* leg_ = nullptr;
  std::vector<std::size_t> next_;  // event of each recorded group
  SummedGradients<T> sums_;
  std::vector<double> header_;
  std::deque<std::vector<T>> versions_;  // the newest ones, the last of them number `newest_`
  Index newest_ = 0;
  std::size_t kept_ = 1;
  FinishedBatch<T> batch_;
};

}  // namespace rossby
