#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "rossby/train/sub_batch.hpp"
#include "rossby/train/update_log.hpp"
#include "rossby/train/update_round.hpp"

namespace rossby {

/// Repeats recorded asynchronous updates one after the other. Each update sums the same sub-batches in the
/// same order, computed with the same versions of the weights. At the same row blocks, the weights have the
/// same bits as those of the recorded training, on any number of time groups: each group trains for some of
/// the recorded groups. At other row blocks, they differ by the order of sums.
template <class T>
class ReplayedUpdates final : public EpochUpdates<T> {
 public:
  /// Uses `rate` and `clip` of the options. `optimiser` belongs to the masters. All arguments must outlive
  /// this object.
  ReplayedUpdates(const AsynchronousOptions& options, const UpdatePorts& ports, std::vector<UpdateLeg> legs,
                  Task<T>& task, MasterParameters<T>& masters, Optimiser<T>& optimiser, const Exec& exec);

  /// Repeats one leg. Votes take effect at its end, because nothing is in flight there. Throws UserError if
  /// the recording has no leg that begins here.
  unsigned run(Tape<T>& tape, double lr, TrainingState& now, const std::function<unsigned()>& vote,
               const std::function<void()>& begin) override;
  void send() override { masters_->send(); }
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
  std::vector<std::size_t> next_;  // next event of each recorded group
  SummedGradients<T> sums_;
  std::vector<double> header_;
  std::deque<std::vector<T>> versions_;  // the newest ones; the last one is version `newest_`
  Index newest_ = 0;
  std::size_t kept_ = 1;
  FinishedBatch<T> batch_;
};

}  // namespace rossby
