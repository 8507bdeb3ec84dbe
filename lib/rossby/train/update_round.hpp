#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/base/stopwatch.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/train/handover.hpp"
#include "rossby/train/optimiser.hpp"
#include "rossby/train/summed_gradients.hpp"
#include "rossby/train/training_state.hpp"
#include "rossby/train/update_log.hpp"

namespace rossby {

/// Factor on a gradient by its staleness s.
enum class StalenessRate {
  none,     // 1
  inverse,  // 1 / max(1, s): Zhang, Gupta, Lian, Liu, IJCAI 2016
  power     // 1 / sqrt(1 + s): the polynomial of Xie, Koyejo, Gupta, 2019, with exponent 1/2
};
[[nodiscard]] double staleness_factor(StalenessRate rate, Index staleness);

/// Seconds that a rank without a gradient rests before the next round, doubled after each round without a
/// gradient. A rank with a gradient waits for the others as long.
inline constexpr double shortest_rest = 2e-4, longest_rest = 1e-3;

struct AsynchronousOptions {
  Index max_staleness = 0;  // 0: no limit
  bool waits = false;       // updates wait for gradients that would become too stale; false: drop them
  StalenessRate rate = StalenessRate::none;
  /// A group that has done its batches repeats them until all groups together have done the epoch's number.
  /// If false, it waits.
  bool repeats = false;
  double clip = 0;       // of the mean gradient's norm; 0: off
  Index save_every = 0;  // updates between checkpoints; 0: none by updates
  /// True if sums are made in rank order, and updates are recorded.
  bool records = false;
  /// True if a thread makes the updates; false if the worker does between its sub-batches.
  bool thread = true;
  /// Calls `hung` if no worker finishes a sub-batch for so many seconds; 0: never.
  double patience = 0;
  std::function<void(double seconds)> hung;
};

/// Ports of asynchronous updates. Nothing else may use these message spaces meanwhile. The number of a rank
/// is group · blocks + block.
struct UpdatePorts {
  Reducer* all = nullptr;      // over all ranks
  Reducer* groups = nullptr;   // over the ranks with these rows
  Reducer* blocks = nullptr;   // over the ranks of this group
  Reducer* workers = nullptr;  // the same, for agreements of workers
  int group = 0, of_groups = 1;
  int block = 0, of_blocks = 1;
};

/// Asynchronous updates, one after another. Each sums the gradients that workers have finished, and applies
/// the optimiser once. Order within a round:
///
///     how many sub-batches all ranks of the group have finished
///       → sums over all ranks of {counts, losses, votes, flags}
///       → if there are gradients: their sums over all ranks (replicated parameters) and over the groups
///         (rows of this rank) → gradient norm → optimiser → weights are published
///
/// It never blocks: `advance` goes on only if what was begun has ended. All ranks make the same rounds.
template <class T>
class UpdateRound {
 public:
  /// The masters hold version `version`. Workers stop when all groups together have done `most_batches`; 0:
  /// when no batches are left.
  UpdateRound(const AsynchronousOptions& options, const UpdatePorts& ports, MasterParameters<T>& masters,
              Optimiser<T>& optimiser, PublishedWeights<T>& weights, Handover<T>& handover, const Exec& exec,
              double lr, Index version, Index most_batches = 0);

  /// Advances the round; returns false if nothing has ended yet. Throws NotFinite, on all ranks in the same
  /// round, if a loss or a gradient is not finite: the masters' gradients then hold the sums.
  bool advance();
  /// True if all workers have ended, and all that they finished has been taken.
  [[nodiscard]] bool over() const { return phase_ == Phase::over; }
  /// True if a round has begun and not ended.
  [[nodiscard]] bool under_way() const { return phase_ != Phase::over && phase_ != Phase::collect; }
  /// Waits for something to do, as long as that saves time.
  void rest();

  /// True if a rank has failed by an exception: the training cannot go on.
  [[nodiscard]] bool a_rank_failed() const { return failed_; }
  [[nodiscard]] Index version() const { return version_; }
  [[nodiscard]] unsigned votes() const { return votes_; }
  /// Loss summed over targets, and number of targets, of all taken sub-batches.
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] double targets() const { return targets_; }
  /// Counts of this run. Staleness is of this rank's sub-batches, counted by the group's first rank.
  [[nodiscard]] const UpdateCounts& counts() const { return counts_; }
  /// Events of this rank's sub-batches, in their order (AsynchronousOptions::records).
  [[nodiscard]] const std::vector<UpdateEvent>& events() const { return events_; }

 private:
  enum class Phase { collect, agree, header, gradients, norm, over };
  /// Places in the sums of a round that all ranks know.
  enum Header : std::size_t {
    of_batches,
    of_windows,
    of_targets,
    of_dropped,
    of_done,
    of_failed,
    of_faulty,
    of_blocked,
    of_votes,
    of_progress = of_votes + 4,
    of_loss,
    of_flags  // of trained parameters, from here on
  };

  [[nodiscard]] bool sums_have_ended();
  void collect();
  void agree();
  void fill_header();
  void read_header();
  void sum_gradients();
  void add_gradients();
  void finish_sums();
  void apply();
  /// Values to be summed over the ranks of a port.
  struct OrderedSum {
    std::vector<double>* values = nullptr;
    std::vector<double> of_ranks = {};
    int rank = 0, ranks = 1;
  };
  void begin(Reducer& over, OrderedSum& sum);
  void end(OrderedSum& sum) const;
  [[nodiscard]] Index staleness(const FinishedBatch<T>& batch) const { return version_ - batch.version; }
  [[nodiscard]] bool too_stale(const FinishedBatch<T>& batch) const {
    return !options_.waits && options_.max_staleness > 0 && staleness(batch) > options_.max_staleness;
  }
  void next_round(bool news);

  AsynchronousOptions options_;
  UpdatePorts ports_;
  MasterParameters<T>* masters_;
  Optimiser<T>* optimiser_;
  PublishedWeights<T>* weights_;
  Handover<T>* handover_;
  Exec exec_;
  double lr_;
  Index version_;
  Index most_batches_;

  Phase phase_ = Phase::collect;
  std::vector<Reducer*> open_;
  typename Handover<T>::Report report_;  // of this round
  Index taken_ = 0, count_ = 0;          // this rank's sub-batches: total, this round
  std::vector<double> finished_, header_;
  SummedGradients<T> gradients_;
  std::vector<double> squares_;  // Σ gradient² of owned rows
  OrderedSum replicated_, owned_, squares_sum_;
  Stopwatch since_collect_;
  double joined_ = 0, summed_ = 0;  // seconds since then
  double rest_;                     // before a round that nobody has requested

  UpdateCounts counts_;
  std::vector<UpdateEvent> events_;
  unsigned votes_ = 0;
  bool failed_ = false;
  double loss_ = 0, targets_ = 0;

  double progress_ = -1, silent_ = 0;
  Stopwatch since_look_;
};

}  // namespace rossby
